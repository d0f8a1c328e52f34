package capture

import (
	"fmt"
	"strings"

	"webhook-gateway/internal/safetext"
)

// Curl returns a shell command that sends the capture in folder dir with curl. For a signature, curl reads the
// headers from gateway sign; the command contains no signature and no secret.
func (c *Capture) Curl(dir, base, path string) (string, error) {
	if c.Sign.Mode == Kept || c.Sign.Mode == Recorded {
		return "", fmt.Errorf("capture %s: %w", c.Name, ErrNotReplayed)
	}
	var b strings.Builder
	body := ""
	if c.Body != nil {
		body = safetext.Shell(strings.TrimSuffix(dir, "/") + "/" + c.Body.File)
	}
	if c.Sign.Mode == Resign {
		kind, party := c.Party()
		fmt.Fprintf(&b, "gateway sign --provider %s --%s %s", c.Provider, kind, safetext.Shell(party.Name))
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
		fmt.Fprintf(&b, " \\\n  -H %s", safetext.Shell(h[0]+": "+h[1]))
	}
	if body != "" {
		fmt.Fprintf(&b, " \\\n  --data-binary @%s", body)
	}
	fmt.Fprintf(&b, " \\\n  %s\n", safetext.Shell(base+c.PathAndQuery(path)))
	return b.String(), nil
}
