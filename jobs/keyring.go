package jobs

import "time"

// Doubt says why a mismatch does not prove that the caller is a stranger.
type Doubt int

// The doubts. With any but NoDoubt the vendor is asked to call again, and not told that it is unknown.
const (
	NoDoubt  Doubt = iota // every live secret was tried
	NoSecret              // none is set yet
	Sealed                // one that is set could not be opened
	Rotating              // a rotation is declared open: the vendor may sign with one we do not have yet
)

// String names the doubt for a log.
func (d Doubt) String() string {
	switch d {
	case NoSecret:
		return "no secret set"
	case Sealed:
		return "secret not to be opened"
	case Rotating:
		return "rotation open"
	default:
		return "none"
	}
}

// Result is the result of trying a Keyring.
type Result struct {
	Matched  bool
	Previous bool  // matched, but not with the secret set last
	Doubt    Doubt // only without a match
}

// Keyring is the live secrets of one source or job. The zero Keyring has none set.
type Keyring struct {
	// Secrets are those that could be opened, newest first; MaxSecrets at most.
	Secrets []Secret
	// CurrentSealed reports that the newest one is not among Secrets, because it could not be opened.
	CurrentSealed bool
	// Unopened counts those that are set but could not be opened.
	Unopened int
	// RotatingUntil is when a rotation that was declared open ends; zero: none.
	RotatingUntil time.Time
}

// Verify asks signed for each live secret, newest first, until one is right. It calls signed at least
// once unless no secret could be tried.
func (k *Keyring) Verify(signed func(secret string) bool) Result {
	for i, s := range k.Secrets {
		if signed(s.Reveal()) {
			return Result{Matched: true, Previous: i > 0 || k.CurrentSealed}
		}
	}
	switch {
	case k.Unopened > 0:
		return Result{Doubt: Sealed}
	case len(k.Secrets) == 0:
		return Result{Doubt: NoSecret}
	case !k.RotatingUntil.IsZero() && time.Now().Before(k.RotatingUntil):
		return Result{Doubt: Rotating}
	default:
		return Result{}
	}
}
