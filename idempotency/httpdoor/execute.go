package httpdoor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

// Wrap protects the handler. Requests with safe methods (GET, HEAD, OPTIONS, TRACE) pass through. For others the answer
// is held back until it is stored, and cannot be flushed or hijacked: a streamed answer cannot be replayed.
//
// The door reads the request's body to recognize repeats. Middleware above it must not read the body: the door refuses
// a body that is shorter than its Content-Length, and takes one without a length for empty.
func (d *Door) Wrap(next http.Handler) http.Handler {
	return d.protect(next, func(w http.ResponseWriter, r *http.Request, k *keyed) { d.serve(w, r, next, k) })
}

// Beginner begins the transactions of requests without a key: a pool.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// TxHandler is an operation whose effect consists of rows. It writes only through tx, which the door begins and
// commits. It may be called again if the answer to a COMMIT is lost.
type TxHandler func(w http.ResponseWriter, r *http.Request, tx pgx.Tx)

// WrapTx protects an operation whose effect consists of rows: claim, effect and answer are one transaction, and the
// client is answered after its COMMIT. For an answer that is not stored (Release, Abandon) the client is answered and
// the transaction is rolled back. A request without a key gets a transaction too.
func (d *Door) WrapTx(pool Beginner, next TxHandler) http.Handler {
	return d.protect(d.unprotected(pool, next), func(w http.ResponseWriter, r *http.Request, k *keyed) { d.serveTx(w, r, next, k) })
}

// keyed is a request with a key.
type keyed struct {
	ref     idempotency.Ref
	content idempotency.Fingerprint
	body    []byte
}

// restore gives the request its body back.
func (k *keyed) restore(r *http.Request) *http.Request {
	r.Body = io.NopCloser(bytes.NewReader(k.body))
	return r
}

// protect passes requests without a key through, and reads those with one.
func (d *Door) protect(pass http.Handler, serve func(http.ResponseWriter, *http.Request, *keyed)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok := d.Authorize(w, r)
		if !ok {
			return
		}
		header := r.Header.Values(keyHeader)
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			pass.ServeHTTP(w, r)
			return
		}
		if len(header) == 0 && !d.Required {
			pass.ServeHTTP(w, r)
			return
		}
		chosen, err := ParseKey(header)
		if err != nil {
			d.refuse(w, badKey, err.Error())
			return
		}
		if caller.Organization == uuid.Nil {
			d.Log.Error("no organization for a request with an idempotency key: Authorize must return it", "path", r.URL.Path)
			d.refuse(w, misconfigured, "")
			return
		}
		if k := d.read(w, r, caller, chosen); k != nil {
			serve(w, r, k)
		}
	})
}

// read reads a request's body; nil if it has refused the request.
func (d *Door) read(w http.ResponseWriter, r *http.Request, caller Caller, chosen string) *keyed {
	key, err := idempotency.ClientKey(caller.Principal, chosen)
	if err != nil {
		d.refuse(w, badKey, "")
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		d.refuse(w, tooLong, "")
		return nil
	case err != nil:
		d.refuse(w, unreadable, "")
		return nil
	case int64(len(body)) < r.ContentLength:
		d.Log.Error("the body of a request with an idempotency key was read before the door", "path", r.URL.Path)
		d.refuse(w, misconfigured, "")
		return nil
	}
	return &keyed{
		ref:     idempotency.Ref{Organization: caller.Organization, Scope: d.Scope, Key: key},
		content: fingerprint(r, body), body: body,
	}
}

func (d *Door) serve(w http.ResponseWriter, r *http.Request, next http.Handler, k *keyed) {
	o, err := d.Keys.Claim(r.Context(), k.ref, k.content, d.Lease)
	if err == nil {
		err = o.Err()
	}
	switch {
	case err != nil:
		d.refuseError(w, err)
	case o.Kind == idempotency.Completed:
		d.replay(w, o.Answer)
	default:
		d.execute(w, r, next, k, o.Claim)
	}
}

// refuseError answers a request whose operation did not run.
func (d *Door) refuseError(w http.ResponseWriter, err error) {
	after, retryable := idempotency.Retryable(err)
	if retryable {
		w.Header().Set("Retry-After", strconv.Itoa(wholeSeconds(after)))
	}
	switch {
	case errors.Is(err, idempotency.ErrInFlight), errors.Is(err, idempotency.ErrLockTimeout):
		d.refuse(w, inFlight, "")
	case errors.Is(err, idempotency.ErrMismatch):
		d.refuse(w, mismatch, "")
	case errors.Is(err, idempotency.ErrUnkept):
		d.refuse(w, lostAnswer, "")
	default:
		if !errors.Is(err, context.Canceled) { // the client is still there
			d.Log.Error("idempotency key cannot be claimed", "err", err)
		}
		w.Header().Set("Retry-After", strconv.Itoa(wholeSeconds(after)))
		d.refuse(w, unavailable, "")
	}
}

// wholeSeconds rounds up: a client that retries a moment early would have to wait again.
func wholeSeconds(d time.Duration) int { return max(int((d+time.Second-1)/time.Second), 1) }

type claimKey struct{}

// ClaimFrom returns the claim that an operation runs under. Pass its key on to a vendor. Reclaimed says that an earlier
// worker may have made the effect. False: the request has no key.
func ClaimFrom(ctx context.Context) (*idempotency.Claim, bool) {
	c, ok := ctx.Value(claimKey{}).(*idempotency.Claim)
	return c, ok
}

// execute runs the operation and ends the claim before the client gets the answer. A panic abandons the claim.
func (d *Door) execute(w http.ResponseWriter, r *http.Request, next http.Handler, k *keyed, c *idempotency.Claim) {
	within, cancel := c.Within(context.WithValue(r.Context(), claimKey{}, c))
	defer cancel()
	r = r.WithContext(within)
	answer, found := &recorder{to: w, header: http.Header{}}, false
	if c.Reclaimed && d.Reconcile != nil {
		found = d.Reconcile(answer, k.restore(r), c)
	}
	if !found {
		answer = &recorder{to: w, header: http.Header{}}
		next.ServeHTTP(answer, k.restore(r))
	}
	var err error
	switch d.ending(answer, within.Err() != nil) {
	case Store:
		err = d.Keys.Finish(r.Context(), c, idempotency.Answer{Response: answer.record()})
	case Release:
		end, done := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
		defer done()
		_, err = d.Keys.Release(end, c)
	case Abandon:
	}
	if err != nil { // the operation is done anyway, and the lease ends the claim
		d.Log.Error("the result of an operation could not be stored under its idempotency key", "key", c.Ref, "status", answer.status(), "err", err)
	}
	answer.send()
}

// releaseTime is the maximum time to release a key. Otherwise the lease ends the claim.
const releaseTime = 10 * time.Second

// errNotStored rolls back an operation whose answer is not stored.
var errNotStored = errors.New("the answer is not stored")

func (d *Door) serveTx(w http.ResponseWriter, r *http.Request, next TxHandler, k *keyed) {
	var answer *recorder
	result, err := idempotency.InTx(r.Context(), d.Keys, idempotency.Task[json.RawMessage]{
		Ref: k.ref, Content: k.content, Lease: d.Lease,
		Encode: func(text json.RawMessage) (idempotency.Answer, error) { return idempotency.Answer{Response: text}, nil },
		Decode: func(a idempotency.Answer) (json.RawMessage, error) { return a.Response, nil },
	}, func(ctx context.Context, tx pgx.Tx, c *idempotency.Claim) (json.RawMessage, error) {
		answer = &recorder{to: w, header: http.Header{}, whole: true}
		next(answer, k.restore(r.WithContext(context.WithValue(ctx, claimKey{}, c))), tx)
		if d.ending(answer, ctx.Err() != nil) != Store {
			return nil, errNotStored
		}
		return answer.record(), nil
	})
	switch {
	case err == nil && result.Replayed:
		d.replay(w, idempotency.Answer{Response: result.Value})
	case err == nil, errors.Is(err, errNotStored):
		answer.send()
	case errors.Is(err, idempotency.ErrUnavailable), errors.Is(err, idempotency.ErrUnreplicated):
		w.Header().Set("Retry-After", "1")
		d.refuse(w, uncertain, "")
	default:
		d.refuseError(w, err)
	}
}

// unprotected runs an operation without a key in a new transaction. Its answer decides between COMMIT and rollback.
func (d *Door) unprotected(pool Beginner, next TxHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &recorder{to: w, header: http.Header{}, whole: true}
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			next(answer, r, tx)
			if d.ending(answer, r.Context().Err() != nil) != Store {
				return errNotStored
			}
			return nil
		})
		if err != nil && !errors.Is(err, errNotStored) {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		answer.send()
	})
}

// replay writes the stored answer.
func (d *Door) replay(w http.ResponseWriter, a idempotency.Answer) {
	stored, err := readRecord(a)
	if err != nil {
		d.refuse(w, lostAnswer, "")
		return
	}
	if stored.Omitted {
		w.Header().Set(replayedHeader, "true")
		d.refuse(w, lostAnswer, "its answer had status "+strconv.Itoa(stored.Status)+", and the answer was too long to keep")
		return
	}
	for name, values := range stored.Header {
		w.Header()[name] = values
	}
	w.Header().Set(replayedHeader, "true")
	w.WriteHeader(stored.Status)
	_, _ = w.Write(stored.body()) // the client may have gone
}
