package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"webhook-gateway/providers"
)

// ErrSignature refuses to scrub a capture that carries a signature: it would not fit any more.
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

// WriteAll writes the captures below a folder, which is made if it is missing, and sets their Dir. Folders are named for
// the captures; of scrubbed ones, whose names may tell what was scrubbed, for provider, type and number.
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

// Type is the type of a capture's first delivery; "capture" when it has none.
func (c *Capture) Type(vendors map[string]providers.Provider) string {
	for _, d := range c.Deliveries(vendors[c.Provider]) {
		return d.Type
	}
	return "capture"
}
