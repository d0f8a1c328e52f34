package capture

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"webhook-gateway/internal/safetext"
)

// Curl returns a shell command that sends the capture in folder dir with curl. What is signed anew is signed
// by gateway sign, whose headers curl reads; the command holds no signature and no secret.
func (c *Capture) Curl(dir, base, path string) (string, error) {
	if c.Sign.Mode == Kept || c.Sign.Mode == Recorded {
		return "", fmt.Errorf("capture %s: %w", c.Name, ErrNotReplayed)
	}
	var b strings.Builder
	body := ""
	if c.Body != nil {
		body = quote(strings.TrimSuffix(dir, "/") + "/" + c.Body.File)
	}
	if c.Sign.Mode == Resign {
		kind, party := c.Party()
		fmt.Fprintf(&b, "gateway sign --provider %s --%s %s", c.Provider, kind, quote(party.Name))
		if body != "" {
			fmt.Fprintf(&b, " < %s", body)
		}
		b.WriteString(" |\n  ")
	}
	fmt.Fprintf(&b, "curl -sS -X %s", c.Method)
	if c.Sign.Mode == Resign {
		b.WriteString(" -H @-")
	}
	for _, h := range c.Headers {
		fmt.Fprintf(&b, " \\\n  -H %s", quote(h[0]+": "+h[1]))
	}
	if body != "" {
		fmt.Fprintf(&b, " \\\n  --data-binary @%s", body)
	}
	fmt.Fprintf(&b, " \\\n  %s\n", quote(base+c.PathAndQuery(path)))
	return b.String(), nil
}

// quote makes one word for a shell of any text. What a terminal must not get is written in the form $'…' of bash and
// zsh, byte by byte, so that the command still sends what the capture holds.
func quote(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r))
	}) < 0
	switch {
	case plain && text != "":
		return text
	case safetext.Line(text) == text:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + text[:size])
		case safetext.Rune(r) && r != utf8.RuneError:
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
