package safetext

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Shell writes a text as one shell word. What is unsafe for a terminal is written as $'…', as in bash and zsh, byte by
// byte, so that the command still sends what the capture holds.
func Shell(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r))
	}) < 0
	switch {
	case plain && text != "":
		return text
	case Line(text) == text:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + text[:size])
		case Rune(r) && r != utf8.RuneError:
			b.WriteString(text[:size])
		default:
			for _, c := range []byte(text[:size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
		text = text[size:]
	}
	b.WriteString("'")
	return b.String()
}
