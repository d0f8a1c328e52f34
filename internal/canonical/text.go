package canonical

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// appendText appends the text of a scanned string's content, as Value.Text returns it.
func appendText(dst, content []byte) []byte {
	for {
		i := bytes.IndexByte(content, '\\')
		if i < 0 {
			return append(dst, content...)
		}
		dst = append(dst, content[:i]...)
		r, size := escape(content[i:])
		if utf16.IsSurrogate(r) {
			dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		content = content[i+size:]
	}
}

// escape reads the escape at the start of content. The rune is a surrogate if its other half does not follow.
func escape(content []byte) (r rune, size int) {
	switch c := content[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r = hex4(content[2:])
		if utf16.IsSurrogate(r) && len(content) >= 12 && content[6] == '\\' && content[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(content[8:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return r, 6
	default:
		return rune(c), 2
	}
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendEscaped appends a character that was escaped, in the spelling of the canonical form: only what must be escaped
// is, in the shortest way and in lower case, as in RFC 8785. Half a surrogate pair, which has no bytes in UTF-8, stays
// an escape.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r >= ' ' && !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
