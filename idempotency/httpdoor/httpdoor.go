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
// Answers that say nothing about the operation, such as 429 and 5xx, are not stored: the next request with
// the key executes it. After 504, a panic or a client that hung up it is unknown whether the effect was
// made, and nobody executes it again before the lease has passed.
package httpdoor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

// Caller is whose key it is. Two callers that choose the same key never meet.
type Caller struct {
	Organization uuid.UUID
	Principal    idempotency.Principal
}

// Door is how one operation, or several with the same Scope, are protected. Wrap makes it a middleware.
type Door struct {
	Keys  *idempotency.Service
	Scope idempotency.Scope // for example http.orders.create
	// Lease is how long the operation may take, and a margin. Its context ends before.
	Lease time.Duration
	// Authorize tells who calls. It is asked before the key is looked at, on every request, so that
	// nobody is given an answer that they may not see any more. It answers a request that it refuses
	// itself, and returns false.
	Authorize func(http.ResponseWriter, *http.Request) (Caller, bool)
	// Required refuses a request without a key. Help is where a client reads about keys.
	Required bool
	Help     string
	// MaxBody is the longest request body in bytes; 1 MiB if zero.
	MaxBody int64
}

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
	omittedHeader  = "Idempotent-Body"

	defaultMaxBody = 1 << 20
)

// Wrap protects the handler. Requests that change nothing by definition (GET, HEAD, OPTIONS, TRACE) pass.
// Below it an answer is held back until it is stored, and cannot be flushed or hijacked: an answer that is
// a stream cannot be given twice.
func (d Door) Wrap(next http.Handler) http.Handler {
	if d.MaxBody == 0 {
		d.MaxBody = defaultMaxBody
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok := d.Authorize(w, r)
		if !ok {
			return
		}
		header := r.Header.Values(keyHeader)
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			next.ServeHTTP(w, r)
			return
		}
		if len(header) == 0 && !d.Required {
			next.ServeHTTP(w, r)
			return
		}
		chosen, err := ParseKey(header)
		if err != nil {
			d.refuse(w, badKey, err.Error())
			return
		}
		d.serve(w, r, next, caller, chosen)
	})
}

func (d Door) serve(w http.ResponseWriter, r *http.Request, next http.Handler, caller Caller, chosen string) {
	key, err := idempotency.ClientKey(caller.Principal, chosen)
	if err != nil {
		d.refuse(w, badKey, "")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.MaxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			d.refuse(w, tooLong, "")
		} else {
			d.refuse(w, unreadable, "")
		}
		return
	}
	ref := idempotency.Ref{Organization: caller.Organization, Scope: d.Scope, Key: key}
	o, err := d.Keys.Claim(r.Context(), ref, fingerprint(r, body), d.Lease)
	switch {
	case errors.Is(err, idempotency.ErrLockTimeout), errors.Is(err, idempotency.ErrInFlight):
		w.Header().Set("Retry-After", "1")
		d.refuse(w, inFlight, "")
	case err != nil:
		w.Header().Set("Retry-After", "1")
		d.refuse(w, unavailable, "")
	case o.Kind == idempotency.Claimed:
		r.Body = io.NopCloser(bytes.NewReader(body))
		d.execute(w, r, next, o.Claim)
	case o.Kind == idempotency.Completed:
		d.replay(w, o.Answer)
	case o.Kind == idempotency.Processing:
		w.Header().Set("Retry-After", strconv.Itoa(wholeSeconds(o.RetryAfter)))
		d.refuse(w, inFlight, "")
	default:
		d.refuse(w, mismatch, "")
	}
}

// wholeSeconds rounds up: a client that comes back a moment early would be told to wait once more.
func wholeSeconds(d time.Duration) int { return max(int((d+time.Second-1)/time.Second), 1) }

// endingTime is how long storing an answer may take once the operation is over.
const endingTime = 10 * time.Second

// execute runs the operation and ends the claim before the client has the answer.
func (d Door) execute(w http.ResponseWriter, r *http.Request, next http.Handler, c *idempotency.Claim) {
	within, cancel := c.Within(r.Context())
	defer cancel()
	answer := &recorder{to: w, header: http.Header{}}
	next.ServeHTTP(answer, r.WithContext(within)) // a panic abandons the claim

	end, done := context.WithTimeout(context.WithoutCancel(r.Context()), endingTime)
	defer done()
	// A failure to end it costs the client nothing: the operation is done, and the lease ends the claim.
	switch fate(answer.status(), within.Err() != nil) {
	case store:
		_, _ = d.Keys.Complete(end, c, idempotency.Answer{Response: answer.record()})
	case release:
		_, _ = d.Keys.Release(end, c)
	}
	answer.send()
}

// replay gives the stored answer.
func (d Door) replay(w http.ResponseWriter, a idempotency.Answer) {
	stored, err := readRecord(a)
	if err != nil {
		d.refuse(w, lostAnswer, "")
		return
	}
	for name, values := range stored.Header {
		w.Header()[name] = values
	}
	w.Header().Set(replayedHeader, "true")
	if stored.Omitted {
		w.Header().Del("Content-Type")
		w.Header().Set(omittedHeader, "omitted")
	}
	w.WriteHeader(stored.Status)
	_, _ = w.Write(stored.body()) // the client may have gone
}

// ending is what becomes of the claim.
type ending int

const (
	store ending = iota
	release
	abandon
)

// fate tells an answer that is the operation's outcome from one that says that there was none. Cut: the
// client hung up or the lease was about to end while it ran.
func fate(status int, cut bool) ending {
	switch status {
	case http.StatusGatewayTimeout:
		return abandon
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooEarly, http.StatusTooManyRequests:
	default:
		if status < http.StatusInternalServerError {
			return store
		}
	}
	if cut {
		return abandon
	}
	return release
}
