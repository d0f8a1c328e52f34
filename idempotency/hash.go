package idempotency

import (
	"fmt"
	"regexp"
	"strings"

	"webhook-gateway/internal/canonical"
)

var hashForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,7}:[0-9a-f]{64}$`)

// Hash is the fingerprint of a request's content, with the method that made it in front: c1:<hex> of
// canonical JSON, r1:<hex> of raw bytes. Hashes of two methods cannot be compared. A Hash is a Fingerprint
// of its own method alone.
type Hash struct{ text string }

// ParseHash takes a hash as it is spelled; anything else wraps ErrHash.
func ParseHash(text string) (Hash, error) {
	if !hashForm.MatchString(text) {
		return Hash{}, fmt.Errorf("%w: %.140q", ErrHash, text)
	}
	return Hash{text}, nil
}

// String spells the hash.
func (h Hash) String() string { return h.text }

// Method is what is in front of the colon.
func (h Hash) Method() string {
	method, _, _ := strings.Cut(h.text, ":")
	return method
}

// Current implements Fingerprint.
func (h Hash) Current() Hash { return h }

// Under implements Fingerprint.
func (h Hash) Under(method string) (Hash, bool) { return h, method == h.Method() }

// Fingerprint tells what a request is under any method that a stored row may have been hashed with, so
// that a method can change without calling honest retries a mismatch. A row is compared under its own.
type Fingerprint interface {
	// Current is what a new claim stores.
	Current() Hash
	// Under is the hash by another method; false when the method is unknown or does not apply to the
	// content, and then the row counts as another content. A method that says less than the stored
	// one proves nothing and must not stand in for it.
	Under(method string) (Hash, bool)
}

// Content is the Fingerprint of a body: of its canonical JSON without the top-level members named in omit,
// or of its bytes when it has no canonical form. Members that a sender changes between two attempts at the
// same request belong in omit.
func Content(body []byte, omit ...string) Fingerprint {
	return content{body: body, omit: omit, current: Hash{canonical.Hash(body, omit...)}}
}

type content struct {
	body    []byte
	omit    []string
	current Hash
}

func (c content) Current() Hash { return c.current }

func (c content) Under(method string) (Hash, bool) {
	switch method {
	case c.current.Method():
		return c.current, true
	case "r1":
		return Hash{canonical.Raw(c.body)}, true
	default:
		return Hash{}, false
	}
}

// same reports whether the stored hash is that of the offered content.
func same(f Fingerprint, stored string) bool {
	if f.Current().text == stored {
		return true
	}
	method, _, _ := strings.Cut(stored, ":")
	if method == f.Current().Method() {
		return false
	}
	h, ok := f.Under(method)
	return ok && h.text == stored
}
