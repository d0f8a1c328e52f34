// Package httpdoor protects the operations of an HTTP API with idempotency keys: a request with an Idempotency-Key
// header is executed once, and its repeats get the first answer.
//
// The answers that a client gets:
//
//	first request                     executed; its answer is stored, then sent
//	repeat of a finished one          the same status, headers and body, and Idempotent-Replayed: true
//	repeat while the first runs       409 and Retry-After: send the same key again
//	same key with other content       422, KEY_MISMATCH: do not send it again
//	key missing but required          400
//	key malformed, or two of them     400
//	no key                            executed, without protection
//
//	repeat of one whose answer was
//	too long to keep                  410, ANSWER_NOT_KEPT: it was executed
//
// The answer's status decides about the key. 2xx, 3xx and most 4xx are stored. 401, 403, 408, 409, 425, 429 and 503 say
// that nothing was done: the next request with the key is executed at once. After every other 5xx, 499, a panic, and no
// answer because the client hung up or the lease ran out, it is unknown whether the effect was made: the key is held
// until its lease has passed, and the next execution learns that (ClaimFrom, Config.Reconcile).
package httpdoor

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

// Caller is the owner of a key. Two callers that choose the same key do not collide.
type Caller struct {
	Organization uuid.UUID
	Principal    idempotency.Principal
}

// Config says how one operation, or several with the same Scope, are protected. New checks it.
type Config struct {
	Keys  *idempotency.Service
	Scope idempotency.Scope // for example http.orders.create
	// Lease is the maximum duration of the operation plus a margin. The operation's context ends before the lease.
	Lease time.Duration
	// Authorize identifies the caller. It runs on every request, before the key is read, so that an answer goes only to
	// callers that may see it. To refuse a request, it writes the answer itself and returns false.
	Authorize func(http.ResponseWriter, *http.Request) (Caller, bool)
	// Required refuses a request without a key. Help is a URL where a client can read about keys.
	Required bool
	Help     string
	// MaxBody is the maximum size of a request body in bytes; 1 MiB if zero.
	MaxBody int64
	// Ending, if set, decides by the status how the claim ends; otherwise EndingOf decides.
	Ending func(status int) Ending
	// Reconcile, if set, runs before an operation that an earlier worker may have executed. If it finds that the
	// operation was executed, it answers as the operation would have, and returns true. Otherwise it writes nothing and
	// returns false.
	Reconcile func(http.ResponseWriter, *http.Request, *idempotency.Claim) (found bool)
	// Log receives answers that could not be stored, and requests without an organization. Nil: nothing is logged.
	Log *slog.Logger
}

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
	defaultMaxBody = 1 << 20
)

// ErrConfig: the Config cannot work.
var ErrConfig = errors.New("httpdoor: unusable config")

// Door protects handlers. It is safe for concurrent use.
type Door struct{ Config }

// New makes a door. The error wraps ErrConfig and names what is missing or wrong.
func New(c Config) (*Door, error) {
	var problems []error
	refuse := func(is bool, text string) {
		if is {
			problems = append(problems, fmt.Errorf("%w: %s", ErrConfig, text))
		}
	}
	refuse(c.Keys == nil, "Keys is nil: create a Service with idempotency.NewService")
	refuse(c.Scope == idempotency.Scope{}, "Scope is empty: create one with idempotency.NewScope")
	refuse(c.Lease < time.Millisecond || c.Lease > idempotency.MaxLease, fmt.Sprintf("Lease is %s: set it to the operation's timeout plus a margin", c.Lease))
	refuse(c.Authorize == nil, "Authorize is nil: it must identify the caller")
	refuse(c.MaxBody < 0, "MaxBody is negative")
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.Ending == nil {
		c.Ending = EndingOf
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Door{c}, nil
}

// Ending says how a claim ends after its operation has answered.
type Ending int

// The endings. The zero Ending is none of them: Config.Ending returns it to let EndingOf decide.
const (
	Store   Ending = iota + 1 // the answer is final: every repeat gets it
	Release                   // certainly nothing was done: the next request is executed
	Abandon                   // it is unknown: the key is held until its lease has passed
)

// EndingOf returns the ending for an answer's status, unless Config.Ending decides otherwise.
func EndingOf(status int) Ending {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return Release
	case clientClosedRequest:
		return Abandon
	}
	if status >= http.StatusInternalServerError {
		return Abandon
	}
	return Store
}

// clientClosedRequest is a common status for a client that hung up.
const clientClosedRequest = 499

// ending returns how the claim ends. Cut: the client hung up, or the lease was about to end, while the operation ran.
func (d *Door) ending(answer *recorder, cut bool) Ending {
	if cut && answer.code == 0 {
		return Abandon // no answer was written
	}
	e := d.Ending(answer.status())
	if e == 0 {
		e = EndingOf(answer.status())
	}
	if cut && e == Release {
		return Abandon // the work may have been in progress when it was cut off
	}
	return e
}
