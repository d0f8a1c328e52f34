package scrub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// level is one container around a text: the member through which the path continues, or an array.
type level struct {
	name  string
	array bool
}

// place is the path to a text, from the outside in.
type place []level

// name returns the member that holds the text, or holds the list with it.
func (p place) name() string {
	for i := len(p) - 1; i >= 0; i-- {
		if !p[i].array {
			return p[i].name
		}
	}
	return ""
}

// within returns how many members up a member of that name is; 0 if there is none.
func (p place) within(name string) int {
	up := 0
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].array {
			continue
		}
		if p[i].name == name && up > 0 {
			return up
		}
		up++
	}
	return 0
}

var (
	protocolWord = regexp.MustCompile(`^(/?[a-z][a-z0-9_./-]{0,79}|[0-9.]{1,5})$`)
	anyKind      = regexp.MustCompile(`^(type|object|specversion)$`)
)

// kind reports whether a text names the kind of its container, in the vendor's own words.
func (w Words) kind(text string, p place) bool {
	if p.within("metadata")+p.within("attributes") > 0 || !protocolWord.MatchString(text) {
		return false
	}
	if anyKind.MatchString(p.name()) || slices.Contains(w.Kinds, p.name()) {
		return true
	}
	return len(p) == 1 && p.name() == "source" && text[0] == '/' // as in CloudEvents: /google/emails/realtime
}

// chosen reports whether a person and not the vendor chose a member's name: the members of metadata, and the blocks
// and fields in the values of a form.
func (w Words) chosen(p place) bool {
	up := p.within("values")
	return up == 1 || up == 2 || p.within("metadata") == 1 && !slices.Contains(w.Metadata, p.name())
}

// editJSON calls edit for each string value and member name of a JSON text, and returns the text with the results in
// their places. The rest stays unchanged byte for byte.
func editJSON(text []byte, edit editing) ([]byte, error) {
	out := make([]byte, 0, len(text))
	copied := 0
	err := stringsOf(text, func(start, end int, at place, name bool) {
		units := unitsOf(text[start:end])
		edited := []rune(edit(textOf(units), at, name))
		out = append(out, text[copied:start]...)
		out = appendUnits(out, units, edited)
		copied = end
	})
	return append(out, text[copied:]...), err
}

// stringsOf calls visit for each string of a JSON text, with the beginning and end of its content, and whether it is
// a member's name. A name is the last level of its place.
func stringsOf(text []byte, visit func(start, end int, at place, name bool)) error {
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var at place
	for {
		before := int(dec.InputOffset())
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token.Kind() {
		case '{':
			at = append(at, level{})
		case '[':
			at = append(at, level{array: true})
		case '}', ']':
			at = at[:len(at)-1]
		case '"':
			start := before + bytes.IndexByte(text[before:], '"') + 1
			end := int(dec.InputOffset()) - 1
			kind, n := dec.StackIndex(dec.StackDepth())
			name := kind == '{' && n%2 == 1
			if name {
				at[len(at)-1].name = token.String()
			}
			visit(start, end, at, name)
		}
	}
}

// unit is a character of a JSON string as it is written.
type unit struct {
	raw     []byte
	r       rune // utf8.RuneError if it is not a character
	escaped bool // as \uXXXX, or as two of them
}

func unitsOf(content []byte) []unit {
	var units []unit
	for len(content) > 0 {
		u := unit{}
		size := 1
		switch {
		case content[0] != '\\':
			u.r, size = utf8.DecodeRune(content)
		case content[1] != 'u':
			u.r, size = shortEscape(content[1]), 2
		default:
			u.r, size, u.escaped = hex4(content), 6, true
			if utf16.IsSurrogate(u.r) {
				pair := utf8.RuneError
				if len(content) >= 12 && content[6] == '\\' && content[7] == 'u' {
					pair = utf16.DecodeRune(u.r, hex4(content[6:]))
				}
				if u.r = pair; pair != utf8.RuneError {
					size = 12
				}
			}
		}
		u.raw = content[:size]
		units = append(units, u)
		content = content[size:]
	}
	return units
}

func shortEscape(c byte) rune {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	default:
		return rune(c)
	}
}

// hex4 reads the escape at the beginning of content. The decoder has checked it.
func hex4(content []byte) rune {
	n, _ := strconv.ParseUint(string(content[2:6]), 16, 16)
	return rune(n)
}

func textOf(units []unit) string {
	runes := make([]rune, len(units))
	for i, u := range units {
		runes[i] = u.r
	}
	return string(runes)
}

// appendUnits writes the edited characters in the same style as the ones that they replace.
func appendUnits(out []byte, units []unit, edited []rune) []byte {
	for i, u := range units {
		switch {
		case i >= len(edited) || edited[i] == u.r:
			out = append(out, u.raw...)
		case u.escaped && edited[i] > 0xffff:
			high, low := utf16.EncodeRune(edited[i])
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		case u.escaped:
			out = fmt.Appendf(out, `\u%04x`, edited[i])
		default:
			out = utf8.AppendRune(out, edited[i])
		}
	}
	return out
}
