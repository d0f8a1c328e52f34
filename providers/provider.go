// Package providers receives what vendors send. The Receiver takes bytes to a verified Request and a
// Request's endings to an HTTP status; the Gate takes a Request to its endings: parse, resolve, settle.
// What differs between vendors is a Provider, one package each below this one.
package providers

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"webhook-gateway/jobs"
)

// Provider is what the gateway must know of one vendor. Implementations hold no state and are safe for
// concurrent use.
type Provider interface {
	// Name is the vendor's segment in the URL, its metric label and the end of its idempotency scope.
	Name() string

	// Headers lists, in lower case, the request headers that may be kept with a delivery. Never one that
	// carries a signature, a cookie or a token.
	Headers() []string

	// Prove reads the signature headers, before the body is read. It answers ErrUnsigned when one is
	// missing or not well-formed, and ErrStale when the signature is too old or too far ahead of now.
	Prove(h http.Header, now time.Time) (Proof, error)

	// Parse splits a body, as it was before any content encoding, into its deliveries, in their order.
	// There is at least one. It answers an error that wraps ErrMalformed when the body cannot be read, and
	// ErrNoDelivery when it is a check of the URL that cannot be answered; an unknown event type or shape is
	// not an error.
	Parse(contentType string, body []byte) ([]Delivery, error)
}

// Proof is what a request offers to show who sent it.
type Proof interface {
	// Verify reports whether the secret signed exactly these bytes of the wire. It takes the same time
	// for every signature of the right form, and fails for a blank secret.
	Verify(secret string, body []byte) bool
}

// Challenger is a Provider that checks a URL with a GET before it has a secret (Nylas).
type Challenger interface {
	// Challenge returns the bare text to answer with; false when the query is no challenge.
	Challenge(query url.Values) (answer string, ok bool)
}

// Handshaker is a Provider that checks a URL with a signed POST (Slack).
type Handshaker interface {
	// Handshake returns the bare text to answer with; false when the verified body is no handshake.
	Handshake(contentType string, body []byte) (answer string, ok bool)
}

// Prober is a Provider that probes a URL with a POST that need not be signed (Slack's ssl_check).
type Prober interface {
	// MayProbe reports whether a request of this content type can be a probe at all. A request that
	// can, and whose signature headers are of no use, is read up to MaxProbe bytes to find out.
	MayProbe(contentType string) bool
	// Probe reports whether the body is a probe: it is answered 200 and nothing of it is kept.
	Probe(contentType string, body []byte) bool
}

// Redactor is a Provider whose bodies may hold a credential that must not be kept.
type Redactor interface {
	// Redact returns a body, as it was before any content encoding, without the credentials in it; the body
	// itself when there are none. It leaves what it is given unchanged. Parse makes the same fingerprint of
	// both.
	Redact(body []byte) []byte
}

// Rehasher is a Provider whose fingerprints were made by another method in an earlier release. Keys that were
// stored then are compared under theirs, so that a vendor's retry is no hash_mismatch after an upgrade.
type Rehasher interface {
	// Rehash returns, by the method named (c1, c2, …), the fingerprint of each delivery that Parse finds in the body;
	// false when this release does not know the method.
	Rehash(method, contentType string, body []byte) (hashes []string, ok bool)
}

// PinChecker is a Provider that knows pins which none of its deliveries can match.
type PinChecker interface {
	// CheckPin says why no delivery names this identity.
	CheckPin(pin jobs.Identity) error
}

// MaxProbe is how many bytes of a request without a usable signature are read, for a Prober alone.
const MaxProbe = 64 << 10

// MaxDeliveries is how many deliveries one request may carry.
const MaxDeliveries = 1000

// The ways in which a request proves nothing, and a signed body tells nothing. A Provider returns the
// first two bare: a verifier's own text may contain the signature that would have been right.
var (
	ErrUnsigned  = errors.New("signature missing or not well-formed")
	ErrStale     = errors.New("signature outside the time it may be used")
	ErrMalformed = errors.New("malformed body")
	// ErrNoDelivery says that a signed body is a check of the URL with nothing in it to answer.
	ErrNoDelivery = errors.New("a check of the URL without a challenge that can be answered")
)

// Delivery is one event inside one request, as a Provider reads it.
type Delivery struct {
	// VendorID identifies the event at the vendor and is equal on each of its retries. Empty when the
	// vendor gives none: the delivery's own minted id takes its place, and it is never a duplicate.
	VendorID string
	// Type is the vendor's event type, as it came; any text.
	Type string
	// Tenant is whom the event is for: the installation's or the grant's identity. Zero when the body
	// names no tenant at all.
	Tenant jobs.Identity
	// Named holds every identity that the body names, Tenant among them: a pinned identity is
	// contradicted when it is none of the values named for it.
	Named []jobs.Identity
	// OrderingKey groups deliveries whose order a consumer may care for: the grant, the channel.
	OrderingKey string
	// Hash returns the fingerprint of the content, made by the canonical package, without what the
	// vendor changes between attempts.
	Hash string
	// Body is this delivery's part of a request that carries several. Nil: the whole request is it.
	Body []byte
}
