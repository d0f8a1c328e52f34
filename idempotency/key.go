package idempotency

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"webhook-gateway/internal/canonical"
)

// MaxKey is the length of the longest key in bytes.
const MaxKey = 512

// digested is the prefix of a digest, which replaces a text that is too long. In a text that already begins so, the
// first letter is escaped, so that no text equals the digest of another.
const digested = "sha256:"

// Key names one effect within its organization and scope: 1 to MaxKey bytes of UTF-8 without control bytes. Only the
// builders below make one; two different inputs never give the same key. Keys are bytes: they are not trimmed, folded
// or normalized.
type Key struct{ text string }

// String returns the key as it is stored.
func (k Key) String() string { return k.text }

// MustKey returns a builder's key, and panics on its error: MustKey(NewKey("sync", "contacts")). Use it for keys that
// are constant in the program, never for a key with a part from outside.
func MustKey(k Key, err error) Key {
	if err != nil {
		panic(err)
	}
	return k
}

// NewKey joins the parts with colons. It percent-escapes colons, percent signs and what cannot be stored, and replaces
// a key that is too long by its digest. For an empty part the error wraps ErrKey: the part is missing, and all callers
// without it would get the same key.
func NewKey(parts ...string) (Key, error) {
	if len(parts) == 0 {
		return Key{}, fmt.Errorf("%w: no parts", ErrKey)
	}
	var b strings.Builder
	for i, part := range parts {
		if part == "" {
			return Key{}, fmt.Errorf("%w: part %d is empty", ErrKey, i+1)
		}
		if i > 0 {
			b.WriteByte(':')
		}
		escape(&b, part, ":")
	}
	return Key{bounded(b.String(), MaxKey)}, nil
}

var errDelivery = fmt.Errorf("%w: a delivery needs a job and an id", ErrKey)

// DeliveryKey returns the key of a vendor's delivery: the job that was called, a slash, and the vendor's id of the
// delivery. It percent-escapes what cannot be stored in the id, and replaces an id that is too long by its digest.
// Without a job or an id the error wraps ErrKey.
func DeliveryKey(job uuid.UUID, vendorID string) (Key, error) {
	if job == uuid.Nil || vendorID == "" {
		return Key{}, errDelivery
	}
	prefix := job.String() + "/"
	if clean(vendorID, "") && len(vendorID) <= MaxKey-len(prefix) && !strings.HasPrefix(vendorID, digested) {
		return Key{prefix + vendorID}, nil
	}
	var b strings.Builder
	escape(&b, vendorID, "")
	return Key{prefix + bounded(b.String(), MaxKey-len(prefix))}, nil
}

// ToolKey returns the key of a tool's write: job, step and tool, for example job_17:3:refund. The step is the job's
// checkpointed counter. No part may change when the worker retries: no tool-call id of a model, no thought, no attempt,
// no time.
func ToolKey(job string, step int64, tool string) (Key, error) {
	if step < 0 {
		return Key{}, fmt.Errorf("%w: step %d", ErrKey, step)
	}
	return NewKey(job, strconv.FormatInt(step, 10), tool)
}

// ToolCallKey is a ToolKey with the hash of the call's canonical arguments, for a step that calls one tool several
// times on purpose.
func ToolCallKey(job string, step int64, tool string, arguments []byte) (Key, error) {
	if step < 0 {
		return Key{}, fmt.Errorf("%w: step %d", ErrKey, step)
	}
	method, sum, _ := strings.Cut(canonical.Hash(arguments), ":")
	return NewKey(job, strconv.FormatInt(step, 10), tool, method, sum)
}

// Principal is the caller: a subject, and for a delegated call the whole chain that acts for it, nearest first. It
// names the person or service, never a credential, which may be rotated. The zero value is anonymous: all
// unauthenticated calls share one space.
type Principal struct {
	Subject string
	Actors  []string
}

var errPrincipal = errors.New("an actor or subject is empty")

// tag returns a short text that differs for every principal.
func (p Principal) tag() (string, error) {
	if p.Subject == "" && len(p.Actors) == 0 {
		return "anonymous", nil // digests are 26 characters long, so no other principal has this tag
	}
	sum := sha256.New()
	for _, name := range append([]string{p.Subject}, p.Actors...) {
		if name == "" {
			return "", errPrincipal
		}
		fmt.Fprintf(sum, "%d:%s", len(name), name)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum.Sum(nil)[:16])), nil
}

// ClientKey returns the key that a client chose, in the space of its principal: two callers that choose the same key do
// not collide.
func ClientKey(p Principal, chosen string) (Key, error) {
	tag, err := p.tag()
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return NewKey(tag, chosen)
}

// clean reports whether the text needs no escape.
func clean(text, special string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == '%' || c == 0x7f || strings.IndexByte(special, c) >= 0 {
			return false
		}
	}
	return utf8.ValidString(text)
}

// escape writes the text, with '%', the special bytes, control bytes and bytes that are not UTF-8 as %XX.
func escape(b *strings.Builder, text, special string) {
	if clean(text, special) {
		b.WriteString(text)
		return
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		c := text[0]
		if (r == utf8.RuneError && n == 1) || c < ' ' || c == '%' || c == 0x7f || strings.IndexByte(special, c) >= 0 {
			fmt.Fprintf(b, "%%%02X", c)
			text = text[1:]
			continue
		}
		b.WriteString(text[:n])
		text = text[n:]
	}
}

// bounded returns the escaped text, or its digest if it is longer than limit.
func bounded(text string, limit int) string {
	if strings.HasPrefix(text, digested) {
		text = "%73" + text[1:] // %73 is s, which is escaped nowhere else
	}
	if len(text) <= limit {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return digested + hex.EncodeToString(sum[:])
}
