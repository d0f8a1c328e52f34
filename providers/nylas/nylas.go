// Package nylas reads Nylas's requests: webhooks of its API v3, and batches of its API v2.
package nylas

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/providers"
)

// signatureHeader carries the HMAC-SHA256 of the request body in hex, with the destination's webhook_secret (v3) or
// the application's client secret (v2) as its key. Nylas documents 64 lower-case digits without a prefix; nothing
// else is accepted.
const signatureHeader = "X-Nylas-Signature"

// maxChallenge bounds what a stranger can have reflected. Nylas's challenges have 16 characters.
const maxChallenge = 256

// Provider is Nylas.
type Provider struct {
	docs canonical.Pool
}

var (
	_ providers.Provider   = (*Provider)(nil)
	_ providers.Challenger = (*Provider)(nil)
	_ providers.Signer     = (*Provider)(nil)
	_ providers.Sampler    = (*Provider)(nil)
	_ providers.Batcher    = (*Provider)(nil)
	_ providers.Retainer   = (*Provider)(nil)
	_ providers.Worded     = (*Provider)(nil)
	_ providers.Tester     = (*Provider)(nil)
)

// New returns the provider.
func New() *Provider { return new(Provider) }

// Name is "nylas".
func (*Provider) Name() string { return "nylas" }

// Retention is a day: Nylas stops repeating within one.
func (*Provider) Retention() time.Duration { return 24 * time.Hour }

// Headers keeps the user agent.
func (*Provider) Headers() []string { return []string{"user-agent"} }

// Prove reads the signature. Nylas signs no time, so a signature is never stale: the delivery's id is what keeps a
// repeated call from having an effect twice.
func (*Provider) Prove(h http.Header, _ time.Time) (providers.Proof, error) {
	values := h.Values(signatureHeader)
	if len(values) != 1 || len(values[0]) != hex.EncodedLen(sha256.Size) {
		return nil, providers.ErrUnsigned
	}
	if strings.Trim(values[0], "0123456789abcdef") != "" {
		return nil, providers.ErrUnsigned
	}
	var p proof
	if _, err := hex.Decode(p[:], []byte(values[0])); err != nil {
		return nil, providers.ErrUnsigned
	}
	return p, nil
}

// proof is the signature that was received.
type proof [sha256.Size]byte

// Verify compares the signature with that of the body's bytes; for a compressed delivery those are the compressed
// ones. The secret of Nylas's test events is public, and gets no special treatment: it verifies only where it is
// registered.
func (p proof) Verify(secret string, body []byte) bool {
	if strings.TrimSpace(secret) == "" {
		return false
	}
	return hmac.Equal(p[:], sum(secret, body))
}

// Sign returns the header with which Nylas would send this body.
func Sign(secret string, body []byte) http.Header {
	return http.Header{signatureHeader: {hex.EncodeToString(sum(secret, body))}}
}

// Sign signs only the body: Nylas signs no time.
func (*Provider) Sign(secret string, body []byte, _ time.Time) http.Header { return Sign(secret, body) }

func sum(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// TestSecret returns the secret with which Nylas signs test events.
func (*Provider) TestSecret() string { return "mock-webhook-secret" }

// Challenge answers the GET with which Nylas checks a URL, before it creates the secret, with the bare value. A
// challenge must be one short line of printable ASCII.
func (*Provider) Challenge(query url.Values) (answer string, ok bool) {
	values := query["challenge"]
	if len(values) != 1 || values[0] == "" || len(values[0]) > maxChallenge {
		return "", false
	}
	for _, c := range []byte(values[0]) {
		if c < ' ' || c > '~' {
			return "", false
		}
	}
	return values[0], true
}
