package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"webhook-gateway/providers"
)

// ErrSignature says that a capture with a signature cannot be scrubbed: the signature would no longer fit.
var ErrSignature = errors.New("it has a signature of its body, and scrubbing changes the body: import it without --keep-signature")

// ScrubAll scrubs the captures, as Scrub does, unless one of them carries a signature.
func ScrubAll(list []*Capture, vendors map[string]providers.Provider) (kept []string, err error) {
	for _, c := range list {
		if c.Sign.Mode == Kept || c.Sign.Mode == Recorded {
			return nil, fmt.Errorf("capture %s: %w", c.Name, ErrSignature)
		}
	}
	return Scrub(list, vendors)
}

// WriteAll writes the captures below a folder, which it makes if needed, and sets their Dir. Folders get the
// captures' names. Scrubbed captures, whose names may reveal what was scrubbed, get names of provider, type and
// number.
func WriteAll(out string, list []*Capture, vendors map[string]providers.Provider, privacy Privacy) error {
	if err := os.MkdirAll(out, 0o700); err != nil {
		return fmt.Errorf("make --out: %w", err)
	}
	for i, c := range list {
		dir := filepath.Join(out, Slug(strings.ReplaceAll(c.Name, "/", "-")))
		if privacy == Shared {
			dir = filepath.Join(out, fmt.Sprintf("%s-%s-%d", c.Provider, Slug(c.Type(vendors)), i+1))
		}
		err := c.Write(dir, privacy)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s exists already: choose another --out, or remove it", dir)
		}
		if err != nil {
			return err
		}
		c.Dir = dir
	}
	return nil
}

// Type returns the type of a capture's first delivery; "capture" if it has none.
func (c *Capture) Type(vendors map[string]providers.Provider) string {
	for _, d := range c.Deliveries(vendors[c.Provider]) {
		return d.Type
	}
	return "capture"
}
