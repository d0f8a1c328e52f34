package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value whose members keep their order and whose numbers keep their spelling.
type value struct {
	kind    jsontext.Kind
	literal string // of a number, true, false or null
	text    string // of a string
	names   []string
	values  []value // members or elements
}

// style is a way to write JSON. Encoders differ in it, and a signature fits only one.
type style struct {
	comma, colon, indent     string
	ascii, html, slash, sort bool
}

// says describes the style.
func (s style) says() string {
	text := "the JSON was parsed and written anew; what was signed is the same JSON "
	switch {
	case s.indent != "":
		text += fmt.Sprintf("indented by %q", s.indent)
	case s.comma == ", ":
		text += "with a blank behind commas and colons"
	default:
		text += "without blanks"
	}
	for _, is := range []struct {
		so   bool
		says string
	}{
		{s.ascii, "other than ASCII as \\u escapes"}, {s.html, "<, > and & as \\u escapes"}, {s.slash, "slashes as \\/"}, {s.sort, "its members sorted by name"},
	} {
		if is.so {
			text += ", " + is.says
		}
	}
	return text
}

func styles() []style {
	var list []style
	for _, s := range []style{{comma: ",", colon: ":"}, {comma: ", ", colon: ": "}, {comma: ",", colon: ": ", indent: "  "}, {comma: ",", colon: ": ", indent: "    "}, {comma: ",", colon: ": ", indent: "\t"}} {
		for flags := range 16 {
			s.ascii, s.html, s.slash, s.sort = flags&1 > 0, flags&2 > 0, flags&4 > 0, flags&8 > 0
			list = append(list, s)
		}
	}
	return list
}

// rewritten returns a JSON body in every style; nil if it is not JSON or too large.
func rewritten(body []byte) []variant {
	if len(body) > maxRewritten {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := parse(dec)
	if err != nil || v.kind != '{' && v.kind != '[' {
		return nil
	}
	var list []variant
	for _, s := range styles() {
		list = append(list, variant{says: s.says(), text: s.write(nil, v, "")})
	}
	return list
}

var errJSON = errors.New("no JSON")

func parse(dec *jsontext.Decoder) (value, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return value{}, err
	}
	v := value{kind: token.Kind()}
	switch v.kind {
	case '{', '[':
		end := v.kind + 2 // '}' and ']'
		for dec.PeekKind() != end {
			if v.kind == '{' {
				name, err := dec.ReadToken()
				if err != nil {
					return v, err
				}
				v.names = append(v.names, name.String())
			}
			inner, err := parse(dec)
			if err != nil {
				return v, err
			}
			v.values = append(v.values, inner)
		}
		_, err = dec.ReadToken()
		return v, err
	case '"':
		v.text = token.String()
	case '0', 't', 'f', 'n':
		v.literal = token.String()
	default:
		return v, errJSON
	}
	return v, nil
}

func (s style) write(out []byte, v value, margin string) []byte {
	switch v.kind {
	case '"':
		return s.quote(out, v.text)
	case '{', '[':
	default:
		return append(out, v.literal...)
	}
	out = append(out, byte(v.kind))
	if len(v.values) == 0 {
		return append(out, byte(v.kind)+2)
	}
	order := make([]int, len(v.values))
	for i := range order {
		order[i] = i
	}
	if s.sort && v.kind == '{' {
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(v.names[a], v.names[b]) })
	}
	deeper := margin + s.indent
	for n, i := range order {
		if n > 0 {
			out = append(out, s.comma...)
		}
		if s.indent != "" {
			out = append(append(out, '\n'), deeper...)
		}
		if v.kind == '{' {
			out = append(s.quote(out, v.names[i]), s.colon...)
		}
		out = s.write(out, v.values[i], deeper)
	}
	if s.indent != "" {
		out = append(append(out, '\n'), margin...)
	}
	return append(out, byte(v.kind)+2)
}

func (s style) quote(out []byte, text string) []byte {
	out = append(out, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case strings.ContainsRune("\n\r\t\b\f", r):
			out = append(out, '\\', "nrtbf"[strings.IndexRune("\n\r\t\b\f", r)])
		case r == '/' && s.slash:
			out = append(out, '\\', '/')
		case r < ' ', s.html && strings.ContainsRune("<>&\u2028\u2029", r):
			out = fmt.Appendf(out, `\u%04x`, r)
		case r >= utf8.RuneSelf && s.ascii && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		case r >= utf8.RuneSelf && s.ascii:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}
