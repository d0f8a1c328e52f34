// Package httpdoor puts the operations of an HTTP API behind the idempotency plane: a request with an
// Idempotency-Key header is executed once, and its repeats get the first answer.
//
// What a client meets:
//
//	first request                     executed; its answer is stored, then sent
//	repeat of a finished one          the same status, headers and body, and Idempotent-Replayed: true
//	repeat while the first runs       409 and Retry-After: send the same key again
//	same key with another content     422, KEY_MISMATCH: do not send it again
//	key missing, where one is needed  400
//	key malformed, or two of them     400
//	no key                            executed, without protection
//
//	repeat of one whose answer was
//	too long to keep                  410, ANSWER_NOT_KEPT: it was executed
//
// An answer ends the key. 2xx, 3xx and most 4xx are stored. 401, 403, 408, 409, 425, 429 and 503 say that nothing was
// done: the next request with the key is executed at once. Every other 5xx, 499, a panic, and silence after the client
// hung up or the lease ran out say that it is unknown whether the effect was made: the key is held until its lease has
// passed, and the next execution is told so (ClaimFrom, Config.Reconcile).
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

// Caller is whose key it is. Two callers that choose the same key never meet.
type Caller struct {
	Organization uuid.UUID
	Principal    idempotency.Principal
}

// Config is how one operation, or several with the same Scope, are protected. New checks it.
type Config struct {
	Keys  *idempotency.Service
	Scope idempotency.Scope // for example http.orders.create
	// Lease is how long the operation may take, and a margin. Its context ends before.
	Lease time.Duration
	// Authorize tells who calls. It is asked before the key is looked at, on every request, so that
	// an answer is given only to callers who may see it. It answers a request that it refuses
	// itself, and returns false.
	Authorize func(http.ResponseWriter, *http.Request) (Caller, bool)
	// Required refuses a request without a key. Help is where a client reads about keys.
	Required bool
	Help     string
	// MaxBody is the longest request body in bytes; 1 MiB if zero.
	MaxBody int64
	// Ending, if set, decides for a status what becomes of the key; EndingOf is what it decides otherwise.
	Ending func(status int) Ending
	// Reconcile, if set, is asked before an operation that an earlier worker may have executed. It finds out, answers as
	// the operation would have, and returns true; false: it was not executed, and nothing was written.
	Reconcile func(http.ResponseWriter, *http.Request, *idempotency.Claim) (found bool)
	// Log is told of answers that could not be stored, and of requests without an organization. Nil: nothing is.
	Log *slog.Logger
}

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
	defaultMaxBody = 1 << 20
)

// ErrConfig: a door cannot be made of this.
var ErrConfig = errors.New("httpdoor: unusable config")

// Door puts handlers behind the plane. It is safe for concurrent use.
type Door struct{ Config }

// New makes a door. The error wraps ErrConfig and names what is missing or wrong.
func New(c Config) (*Door, error) {
	var problems []error
	refuse := func(is bool, text string) {
		if is {
			problems = append(problems, fmt.Errorf("%w: %s", ErrConfig, text))
		}
	}
	refuse(c.Keys == nil, "Keys is nil: make a Service with idempotency.NewService")
	refuse(c.Scope == idempotency.Scope{}, "Scope is empty: make one with idempotency.NewScope")
	refuse(c.Lease < time.Millisecond || c.Lease > idempotency.MaxLease, fmt.Sprintf("Lease is %s: it is the operation's time-out and a margin", c.Lease))
	refuse(c.Authorize == nil, "Authorize is nil: it tells whose key it is")
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

// Ending is what becomes of a key when its operation has answered.
type Ending int

// The endings. The zero Ending is none: Config.Ending returns it for a status that EndingOf decides.
const (
	Store   Ending = iota + 1 // the answer is the outcome: every repeat gets it
	Release                   // certainly nothing was done: the next request is executed
	Abandon                   // it is unknown: the key is held until its lease has passed
)

// EndingOf is what becomes of a key after an answer of that status, unless Config.Ending says otherwise.
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

// clientClosedRequest is what many write for a client that hung up.
const clientClosedRequest = 499

// ending is what becomes of the key. Cut: the client hung up, or the lease was about to end, while it ran.
func (d *Door) ending(answer *recorder, cut bool) Ending {
	if cut && answer.code == 0 {
		return Abandon // silence is no answer
	}
	e := d.Ending(answer.status())
	if e == 0 {
		e = EndingOf(answer.status())
	}
	if cut && e == Release {
		return Abandon // what was cut off may have been on its way
	}
	return e
}
