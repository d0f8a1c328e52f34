package idempotency

import (
	"fmt"
	"regexp"
	"strings"

	"webhook-gateway/internal/canonical"
)

var hashForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,7}:[0-9a-f]{64}$`)

// Hash is the fingerprint of a request's content, prefixed with its method: c1:<hex> of canonical JSON, r1:<hex> of raw
// bytes. Hashes of different methods cannot be compared. A Hash equals a Fingerprint only if both have the same method.
type Hash struct{ text string }

// ParseHash parses a hash in its text form. For any other text the error wraps ErrHash.
func ParseHash(text string) (Hash, error) {
	if !hashForm.MatchString(text) {
		return Hash{}, fmt.Errorf("%w: %.140q", ErrHash, text)
	}
	return Hash{text}, nil
}

// String returns the text form.
func (h Hash) String() string { return h.text }

// Method returns the part before the colon.
func (h Hash) Method() string {
	method, _, _ := strings.Cut(h.text, ":")
	return method
}

// Current implements Fingerprint.
func (h Hash) Current() Hash { return h }

// Under implements Fingerprint.
func (h Hash) Under(method string) (Hash, bool) { return h, method == h.Method() }

// Fingerprint computes a request's hash under any method that a stored row may use. So the method can change without
// turning honest retries into mismatches: a row is compared under its own method.
type Fingerprint interface {
	// Current returns the hash that a new claim stores.
	Current() Hash
	// Under returns the hash by another method. False: the method is unknown or does not apply to the content; the row
	// then counts as other content. A method that covers less than the stored one proves nothing and must not be used
	// instead.
	Under(method string) (Hash, bool)
}

// Content returns the Fingerprint of a body: of its canonical JSON without the top-level members in omit, or of its
// bytes if it has no canonical form. List in omit the members that a sender changes between attempts at the same
// request.
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

// same reports whether the stored hash matches the offered content.
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
