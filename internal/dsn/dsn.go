// Package dsn checks PostgreSQL connection strings, and says which part of them may be shown. It never quotes the text:
// any misplaced part may belong to the password.
package dsn

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// parameter is a keyword and its value; in a URL, one after the question mark.
type parameter struct{ name, value string }

// address is a parsed connection string.
type address struct {
	isURL    bool
	userinfo bool     // an @ ends it
	hosts    []string // as written, with their ports
	database string   // as written
	params   []parameter
}

var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// Check returns what is wrong with a connection string (a URL, or keywords and values) and what to do; nil if it looks
// right without connecting. It also checks what libpq's rules allow, if a mistake there would show a part of the
// password: an @, a slash or a question mark in it.
func Check(text string) error {
	a, err := parse(text)
	if err != nil {
		return err
	}
	return errors.Join(a.checkHosts(), a.checkParams())
}

// Place returns where a URL points, without user, password and parameters: postgres://a:5432,b/name. It returns "" for
// another form, and for a URL that Check refuses.
func Place(text string) string {
	a, err := parse(text)
	if err != nil || !a.isURL || a.checkHosts() != nil {
		return ""
	}
	place := "postgres://" + strings.Join(a.hosts, ",")
	if a.database != "" {
		place += "/" + a.database
	}
	return place
}

// Files lists the files that a connection string names: certificates, keys, passwords, services.
func Files(text string) []string {
	a, _ := parse(text) // as much as can be parsed
	var paths []string
	for _, p := range a.params {
		if slices.Contains([]string{"passfile", "servicefile", "sslcert", "sslkey", "sslrootcert"}, p.name) {
			paths = append(paths, p.value)
		}
	}
	return paths
}

func parse(text string) (address, error) {
	if q := strings.TrimSpace(text); q != "" && strings.ContainsRune("\"'`", rune(q[0])) {
		return address{}, errors.New("begins with a quote: remove the quotes; env files and YAML blocks keep them as part of the value")
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	keyword, _, hasKeyword := strings.Cut(text, "=")
	switch {
	case isURL && (scheme == "postgres" || scheme == "postgresql"):
		return parseURL(rest)
	case hasKeyword && (!isURL || nameForm.MatchString(strings.Trim(keyword, asciiSpace))):
		return parseKeywords(text)
	}
	return address{}, errors.New("is not a PostgreSQL connection string; write postgres://user:password@host:5432/database")
}

func parseURL(rest string) (address, error) {
	a := address{isURL: true}
	at := strings.IndexByte(rest, '@')
	slash := strings.IndexByte(rest, '/')
	switch {
	case strings.IndexFunc(rest, unicode.IsControl) >= 0:
		return a, errors.New("holds a line break or another control character, perhaps at its end: remove it")
	case strings.IndexFunc(rest, unicode.IsSpace) >= 0:
		return a, errors.New("holds a blank: remove it, or write it as %20 if it belongs to a name or the password")
	case strings.Count(rest, "@") > 1:
		return a, errors.New("holds more than one @: write all except the one before the host as %40")
	case slash >= 0 && at > slash:
		return a, errors.New("holds a / before the @: in a user or password write it as %2F, and an @ in a parameter as %40")
	case badPercent(rest):
		return a, errors.New("holds a % without two hexadecimal digits after it: write a literal % as %25")
	}
	a.userinfo = at >= 0
	rest = rest[at+1:] // as in libpq, a user or password may contain a literal ? or #
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	a.hosts = strings.Split(rest[:end], ",")
	path, query, _ := strings.Cut(rest[end:], "?")
	a.database = strings.TrimPrefix(path, "/")
	if query == "" {
		return a, nil
	}
	for part := range strings.SplitSeq(query, "&") {
		name, value, ok := strings.Cut(part, "=")
		if !ok || strings.Contains(value, "=") || !nameForm.MatchString(name) {
			return a, errors.New("has a parameter after the ? that is not of the form name=value: separate them with &, and write %26 and %3D for & and = in a value")
		}
		value, _ = url.PathUnescape(value) // its percent signs were checked
		a.params = append(a.params, parameter{name, value})
	}
	return a, nil
}

func badPercent(text string) bool {
	for i := range len(text) {
		if text[i] != '%' {
			continue
		}
		if i+2 >= len(text) {
			return true
		}
		if _, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err != nil {
			return true
		}
	}
	return false
}

// asciiSpace separates keywords, as in libpq.
const asciiSpace = " \t\n\r\v\f"

func parseKeywords(text string) (address, error) {
	var a address
	for rest := strings.Trim(text, asciiSpace); rest != ""; rest = strings.TrimLeft(rest, asciiSpace) {
		name, after, _ := strings.Cut(rest, "=")
		name = strings.TrimRight(name, asciiSpace)
		if !nameForm.MatchString(name) || after == "" && !strings.HasSuffix(rest, "=") {
			return a, errors.New("holds a word that is not keyword=value: put a value with blanks in single quotes, like password='…', with \\' and \\\\ for ' and \\ in it; or write a URL, postgres://user:password@host:5432/database")
		}
		trimmed := strings.TrimLeft(after, asciiSpace)
		value, left, ok := cutValue(trimmed)
		if !ok {
			return a, errors.New("holds a value that begins with a single quote and does not end with one, or text right after the closing quote: quote the whole value, with \\' and \\\\ for ' and \\ in it")
		}
		if len(trimmed) < len(after) && trimmed != "" && trimmed[0] != '\'' && strings.Contains(value, "=") {
			return a, errors.New("holds a keyword without a value, so the next word would become its value: write '' for an empty value")
		}
		a.params = append(a.params, parameter{name, value})
		rest = left
	}
	return a, nil
}

// cutValue reads the value at the beginning of a text; ok is false if its quotes are wrong.
func cutValue(text string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(text, "'")
	text = strings.TrimPrefix(text, "'")
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			out.WriteByte(text[i])
		case quoted && c == '\'':
			rest = text[i+1:]
			return out.String(), rest, rest == "" || strings.IndexByte(asciiSpace, rest[0]) >= 0
		case !quoted && strings.IndexByte(asciiSpace, c) >= 0:
			return out.String(), text[i:], true
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), "", !quoted
}

// checkHosts checks the hosts of a URL and their ports.
func (a *address) checkHosts() error {
	for _, host := range a.hosts {
		port := ""
		if inner, isIPv6 := strings.CutPrefix(host, "["); isIPv6 {
			_, after, closed := strings.Cut(inner, "]")
			if !closed || after != "" && after[0] != ':' {
				return errors.New("has a host with a [ but no ] before its port")
			}
			port = strings.TrimPrefix(after, ":")
		} else if _, port, _ = strings.Cut(host, ":"); strings.Contains(port, ":") {
			return errors.New("has a host with more than one colon: write an IPv6 address in brackets, like [::1]:5432" + a.missingHost())
		}
		if !isPort(port) {
			return errors.New("has a port that is not a number from 1 to 65535" + a.missingHost())
		}
	}
	return nil
}

// missingHost is a hint for a host that looks wrong.
func (a *address) missingHost() string {
	if a.userinfo {
		return ""
	}
	return "; after user:password there must be an @ and the host"
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// checkParams checks the names and values of parameters.
func (a *address) checkParams() error {
	secret := "" // the parameter whose unescaped value may continue in the next one
	for _, p := range a.params {
		if advice, foreign := foreign()[p.name]; foreign {
			return fmt.Errorf("has the parameter %s, which cannot be used here: %s", p.name, advice)
		}
		if secret != "" && !slices.Contains(known(), strings.ToLower(p.name)) {
			return fmt.Errorf("has an unknown parameter after %s: if it belongs to the value, escape it; otherwise write it before %s", secret, secret)
		}
		if p.name == "password" || p.name == "sslpassword" {
			secret = p.name
		}
		if allowed, closed := values()[p.name]; closed && !slices.Contains(allowed, p.value) {
			return fmt.Errorf("has a %s other than %s", p.name, strings.Join(allowed, ", "))
		}
		if err := p.checkNumber(); err != nil {
			return err
		}
	}
	return nil
}

func (p parameter) checkNumber() error {
	switch p.name {
	case "port":
		for port := range strings.SplitSeq(p.value, ",") {
			if !isPort(port) {
				return errors.New("has a port that is not a number from 1 to 65535")
			}
		}
	case "connect_timeout", "pool_max_conns", "pool_min_conns", "pool_min_idle_conns":
		if n, err := strconv.ParseUint(p.value, 10, 31); err != nil || p.name == "pool_max_conns" && n == 0 {
			return fmt.Errorf("has a %s that is not a number", p.name)
		}
	}
	return nil
}
