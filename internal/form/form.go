// Package form parses bodies of type application/x-www-form-urlencoded as browsers do: it splits a form at each & and a
// field at its first =, and takes a percent sign that begins no escape literally. It accepts every body.
package form

import (
	"bytes"
	"iter"
)

// Fields iterates over a form's fields, names and values as they are written.
func Fields(body []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for field := range bytes.SplitSeq(body, []byte("&")) {
			name, value, _ := bytes.Cut(field, []byte("="))
			if len(field) > 0 && !yield(name, value) {
				return
			}
		}
	}
}

// Unescape decodes a name or a value.
func Unescape(text []byte) string {
	if bytes.IndexByte(text, '%') < 0 && bytes.IndexByte(text, '+') < 0 {
		return string(text)
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			plain = append(plain, ' ')
		case c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			plain = append(plain, hexValue(text[i+1])<<4|hexValue(text[i+2]))
			i += 2
		default:
			plain = append(plain, c)
		}
	}
	return string(plain)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
