package providers

import "time"

// Retainer is a Provider whose repeats end sooner or later than those of most vendors. Without it, the keys of
// deliveries are remembered for 7 days.
type Retainer interface {
	// Retention is how long the key of a delivery is remembered. It is positive, constant, and outlasts the vendor's
	// last repeat.
	Retention() time.Duration
}
