package jobs

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

const (
	redacted = "[redacted]"

	// MaxSecretBytes is the maximum size of a signing secret.
	MaxSecretBytes = 200
	// MaxSecrets is how many secrets of one source or job are live at once: a mismatch costs a signature
	// with each of them.
	MaxSecrets = 8
)

// Secret is a vendor's signing secret. It prints, logs and encodes as [redacted]; only Reveal returns its text. The
// zero Secret holds no secret.
type Secret struct {
	// A pointer, because fmt prints unexported fields of an outer struct without calling their methods: it then shows
	// an address and not the text.
	text *string
}

// NewSecret takes a secret as a person or a pipe gives it: it drops one trailing newline and does not check the format.
// The error wraps ErrInvalid and never contains the text.
func NewSecret(text string) (Secret, error) {
	if cut, found := strings.CutSuffix(text, "\n"); found {
		text = strings.TrimSuffix(cut, "\r")
	}
	switch {
	case strings.TrimSpace(text) == "":
		return Secret{}, fmt.Errorf("%w: the secret is blank; give the signing secret that the vendor shows", ErrInvalid)
	case len(text) > MaxSecretBytes:
		return Secret{}, fmt.Errorf("%w: the secret has %d bytes, %d at most are taken; give the secret alone",
			ErrInvalid, len(text), MaxSecretBytes)
	}
	return Secret{text: &text}, nil
}

// Reveal returns the secret's text, to compute a signature with. Empty for the zero Secret.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
