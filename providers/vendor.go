package providers

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"webhook-gateway/internal/samples"
	"webhook-gateway/internal/scrub"
)

// A vendor may implement the interfaces of this file. The receiver does not use them: they are for the commands
// around it. A command refuses a vendor that lacks the interface it needs, or does less for it.

// Signer is a Provider whose signatures the gateway can make: for samples, replays and diagnoses.
type Signer interface {
	// Sign returns the headers with which the vendor signs a body that it sends at that time. The names of the
	// headers never change.
	Sign(secret string, body []byte, at time.Time) http.Header
}

// SigningHeaders returns the sorted names of the headers that a vendor signs with; nil unless it is a Signer.
func SigningHeaders(p Provider) []string {
	s, ok := p.(Signer)
	if !ok {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Sign("a secret", nil, time.Now())))
}

// Sampler is a Provider with samples of what the vendor sends, for people who try the gateway.
type Sampler interface {
	Samples() samples.Set
}

// Batcher is a Provider whose requests may carry several deliveries.
type Batcher interface {
	// Batch returns the body of a request that carries one part alone: a Delivery's Body. Parse returns the same
	// delivery for it.
	Batch(part []byte) []byte
}

// Worded is a Provider that says which words of its bodies are its own, and no person's: they stay in a capture whose
// texts are replaced.
type Worded interface {
	Words() scrub.Words
}

// Tester is a Provider that signs the events of its test button with a public secret. The secret verifies only where it
// is registered.
type Tester interface {
	TestSecret() string
}

// Retainer is a Provider whose repeats end sooner or later than those of most vendors. Without it, the keys of
// deliveries are remembered for 7 days.
type Retainer interface {
	// Retention is how long the key of a delivery is remembered. It is positive, constant, and outlasts the vendor's
	// last repeat.
	Retention() time.Duration
}

// Retention returns how long the key of a vendor's delivery is remembered.
func Retention(p Provider) time.Duration {
	if r, ok := p.(Retainer); ok {
		return r.Retention()
	}
	return 7 * 24 * time.Hour
}

// ScopeName returns the name of the idempotency scope of a vendor's deliveries.
func ScopeName(provider string) string { return "webhook." + provider }
