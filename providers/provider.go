// Package providers receives what vendors send. The Receiver turns bytes into a verified Request, and a Request's
// endings into an HTTP status. The Gate takes a Request to its endings: parse, resolve, settle. Everything that
// differs between vendors is in a Provider: one package for each, below this one.
package providers

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"webhook-gateway/jobs"
)

// Provider is what the gateway must know about one vendor. Implementations hold no state and are safe for concurrent
// use.
type Provider interface {
	// Name is the vendor's segment in the URL, its metric label and the end of its idempotency scope.
	Name() string

	// Headers lists, in lower case, the request headers that may be kept with a delivery. It never lists one that
	// carries a signature, a cookie or a token.
	Headers() []string

	// Prove reads the signature headers, before the body is read. It returns ErrUnsigned when one is missing or not
	// well-formed, and ErrStale when the signature is too old or too far ahead of now.
	Prove(h http.Header, now time.Time) (Proof, error)

	// Parse splits a body, as it was before any content encoding, into its deliveries, in their order. There is at
	// least one. The error wraps ErrMalformed when the body cannot be read; it is ErrNoDelivery when the body checks
	// the URL and offers nothing to answer with. An unknown event type or shape is not an error.
	Parse(contentType string, body []byte) ([]Delivery, error)
}

// Proof is what a request offers to show who sent it.
type Proof interface {
	// Verify reports whether the secret signed exactly these bytes of the wire. It takes the same time for every
	// signature of the right form, and returns false for a blank secret.
	Verify(secret string, body []byte) bool
}

// Challenger is a Provider that checks a URL with a GET before it has a secret (Nylas).
type Challenger interface {
	// Challenge returns the bare text to answer with, or false when the query is not a challenge.
	Challenge(query url.Values) (answer string, ok bool)
}

// Handshaker is a Provider that checks a URL with a signed POST (Slack).
type Handshaker interface {
	// Handshake returns the bare text to answer with, or false when the verified body is not a handshake.
	Handshake(contentType string, body []byte) (answer string, ok bool)
}

// Prober is a Provider that probes a URL with a POST that need not be signed (Slack's ssl_check).
type Prober interface {
	// MayProbe reports whether a request of this content type can be a probe at all. If it can, and its signature
	// headers are not usable, up to MaxProbe bytes of its body are read to find out.
	MayProbe(contentType string) bool
	// Probe reports whether the body is a probe. A probe is answered 200, and nothing of it is kept.
	Probe(contentType string, body []byte) bool
}

// Redactor is a Provider whose bodies may hold a credential that must not be kept.
type Redactor interface {
	// Redact returns a body, as it was before any content encoding, without the credentials in it; the same body when
	// there are none. It does not change its argument. Parse returns the same fingerprint for both.
	Redact(body []byte) []byte
}

// Rehasher is a Provider whose fingerprints were made by another method in an earlier release. Keys that were stored
// then are compared by that method, so that a vendor's retry does not become a hash_mismatch after an upgrade.
type Rehasher interface {
	// Rehash returns the fingerprint, by the method named (c1, c2, …), of each delivery that Parse finds in the body;
	// false when this release does not know the method.
	Rehash(method, contentType string, body []byte) (hashes []string, ok bool)
}

// PinChecker is a Provider that knows pins which none of its deliveries can match.
type PinChecker interface {
	// CheckPin returns why no delivery can name this identity; nil if one can.
	CheckPin(pin jobs.Identity) error
}

// MaxProbe is the number of bytes that are read of a request without a usable signature, and only for a Prober.
const MaxProbe = 64 << 10

// MaxDeliveries is the number of deliveries that one request may carry.
const MaxDeliveries = 1000

// Why a request is not verified, or a signed body cannot be used. A Provider returns the first two bare: a verifier's
// error text may contain the correct signature.
var (
	ErrUnsigned  = errors.New("signature missing or not well-formed")
	ErrStale     = errors.New("signature outside the time it may be used")
	ErrMalformed = errors.New("malformed body")
	// ErrNoDelivery says that a signed body is a check of the URL with nothing to answer it with.
	ErrNoDelivery = errors.New("a check of the URL without a challenge that can be answered")
)

// Delivery is one event inside one request, as a Provider reads it.
type Delivery struct {
	// VendorID identifies the event at the vendor and is equal on each of its retries. It is empty when the vendor
	// gives none: the delivery's own minted id then takes its place, and the delivery is never a duplicate.
	VendorID string
	// Type is the vendor's event type as the vendor wrote it. It may be any text.
	Type string
	// Tenant identifies whom the event is for: the installation or the grant. Zero when the body names no tenant.
	Tenant jobs.Identity
	// Named holds every identity that the body names, Tenant among them. A body contradicts a pin when it names the
	// pin's identity, but never with the pin's value.
	Named []jobs.Identity
	// OrderingKey groups deliveries whose order may matter to a consumer: the grant, the channel.
	OrderingKey string
	// Hash is the fingerprint of the content, made by the canonical package, without what the vendor changes between
	// attempts.
	Hash string
	// Body is this delivery's part of a request that carries several. Nil when the whole request is one delivery.
	Body []byte
}
