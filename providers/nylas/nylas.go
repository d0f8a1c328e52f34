// Package nylas reads what Nylas sends: webhooks of its API v3, and the batches of its API v2.
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

// signatureHeader carries the HMAC-SHA256 of the request body, in hex, under the destination's
// webhook_secret (v3) or the application's client secret (v2). Nylas documents 64 lower-case digits and
// no prefix, so nothing else is taken for a signature.
const signatureHeader = "X-Nylas-Signature"

// maxChallenge bounds what anybody can have reflected. Challenges seen are 16 characters long.
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

// New returns the provider, which is ready.
func New() *Provider { return new(Provider) }

// Name is "nylas".
func (*Provider) Name() string { return "nylas" }

// Retention is a day: Nylas gives up within one.
func (*Provider) Retention() time.Duration { return 24 * time.Hour }

// Headers keeps the user agent.
func (*Provider) Headers() []string { return []string{"user-agent"} }

// Prove takes the signature. Nylas signs no time, so none is ever stale: what keeps a call from having an
// effect twice is its id.
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

// proof is a signature as it came.
type proof [sha256.Size]byte

// Verify holds the signature against the body's bytes, which for a compressed delivery are the compressed
// ones. The secret that signs Nylas's test events is public and no exception: it verifies only where it
// was registered.
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

// Sign signs the body alone: Nylas signs no time.
func (*Provider) Sign(secret string, body []byte, _ time.Time) http.Header { return Sign(secret, body) }

func sum(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// TestSecret signs what Nylas sends to try a URL.
func (*Provider) TestSecret() string { return "mock-webhook-secret" }

// Challenge answers the GET with which Nylas checks a URL, before it mints the secret: the bare value.
// What is not one short line of printable ASCII is no challenge.
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
