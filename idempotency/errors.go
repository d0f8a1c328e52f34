package idempotency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/sqlstate"
)

// Errors of calls that are refused. Nothing was sent to the database.
var (
	ErrOrganization = errors.New("idempotency: organization is missing")
	ErrScope        = errors.New("idempotency: unknown scope")
	ErrKey          = errors.New("idempotency: invalid key")
	ErrHash         = errors.New("idempotency: invalid hash")
	ErrIdentity     = errors.New("idempotency: claim id or lease token is missing")
	ErrLease        = errors.New("idempotency: lease must be between 1 ms and 30 days")
	// ErrNested: the call ends a claim by itself, but in a transaction a claim ends with the transaction: use DoTx.
	ErrNested = errors.New("idempotency: not possible with a Service in a transaction: use DoTx")
	// ErrNoEffectGiven: the effect is nil. Nothing was claimed.
	ErrNoEffectGiven = errors.New("idempotency: effect is nil")
	// ErrEmptyAnswer refuses a completion without a response and without a complete resource: it would replay an empty
	// success. The claim is still held.
	ErrEmptyAnswer = errors.New("idempotency: an answer needs a response or a resource with type and id")
)

// Errors of the database. None of them says whether the effect was made.
var (
	// ErrLockTimeout: an uncommitted transaction held the key longer than the lock wait. Nothing was taken. Under an
	// orchestrator, treat it as in flight. In a webhook receiver, settle the delivery again, because the holder may
	// roll back.
	ErrLockTimeout = errors.New("idempotency: key is locked by an open transaction")
	// ErrContended: the key changed hands on every attempt. It is in flight (errors.Is ErrInFlight).
	ErrContended = fmt.Errorf("idempotency: key changed hands too often: %w", ErrInFlight)
	// ErrUnavailable: the database did not answer. The statement may have been committed; a repeat recognizes it.
	ErrUnavailable = errors.New("idempotency: the database did not answer")
	// ErrIsolation: the transaction is not READ COMMITTED. The claim is correct only at that level.
	ErrIsolation = errors.New("idempotency: transaction must be READ COMMITTED: begin it with that level, " +
		"or set default_transaction_isolation = 'read committed'")
	// ErrFenceLost: inside a transaction, another worker has taken over the claim. The other worker makes the effect,
	// so the transaction must roll back. Outside a transaction a lost fence is not an error.
	ErrFenceLost = errors.New("idempotency: another worker owns the claim: roll back")
	// ErrInFlight matches every *InFlightError: retry later with the same key.
	ErrInFlight = errors.New("idempotency: claim in flight")
	// ErrMismatch matches every *MismatchError: never retry, the key was reused for other content.
	ErrMismatch = errors.New("idempotency: KEY_MISMATCH")
	// ErrUnkept matches every *UnkeptError: the effect was made, but its answer cannot be replayed.
	ErrUnkept = errors.New("idempotency: done, but the answer was not kept")
)

// Retryable reports whether and when the call may be repeated with the same key and content. True: another attempt
// cannot contradict anything known; a claim that was made is recognized, or its lease passes. False: the answer is
// final (ErrMismatch, ErrUnkept, a *Failure), the call is wrong, or the error is the effect's own.
func Retryable(err error) (after time.Duration, ok bool) {
	var busy *InFlightError
	var server *pgconn.PgError
	var own *effectError
	switch {
	case errors.As(err, &own):
		return 0, false
	case errors.As(err, &busy):
		return busy.RetryAfter, true
	case errors.Is(err, ErrInFlight), errors.Is(err, ErrLockTimeout):
		return DefaultLockWait, true
	case errors.Is(err, ErrUnreplicated), errors.Is(err, ErrUnavailable):
		return time.Second, true
	case errors.As(err, &server):
		return time.Second, temporary(err)
	}
	return 0, false
}

// temporary reports whether a failed statement may succeed when it is sent again. It does not if PostgreSQL refuses the
// statement itself.
func temporary(err error) bool {
	for _, final := range []error{ErrIsolation, ErrEmptyAnswer, ErrFenceLost, pgx.ErrTxClosed} {
		if errors.Is(err, final) {
			return false
		}
	}
	switch sqlstate.Class(err) {
	case "": // no answer came
		return true
	case "08", "40", "53", "55", "57", "58", "XX":
		return true
	}
	return sqlstate.Of(err) == "25006" // a server that accepts no writes for a while
}

// InFlightError says that another worker holds a live lease on the key.
type InFlightError struct {
	Ref        Ref
	RetryAfter time.Duration // the rest of the lease
}

func (e *InFlightError) Error() string {
	return fmt.Sprintf("claim of %s %s is in flight, its lease passes in %s", e.Ref.Scope, e.Ref.Key, e.RetryAfter)
}

// Is makes the error an ErrInFlight.
func (e *InFlightError) Is(target error) bool { return target == ErrInFlight }

// MismatchError says that the key was claimed for another content.
type MismatchError struct {
	Ref Ref
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("KEY_MISMATCH: %s %s was claimed for another content", e.Ref.Scope, e.Ref.Key)
}

// Is makes the error an ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// explain wraps PostgreSQL errors with the sentinels that callers branch on. The *pgconn.PgError stays reachable.
func explain(err error) error {
	if errors.Is(err, ErrLockTimeout) || errors.Is(err, ErrIsolation) || errors.Is(err, ErrUnavailable) {
		return err
	}
	switch sqlstate.Of(err) {
	case "55P03":
		return fmt.Errorf("%w: %w", ErrLockTimeout, err)
	case "40001":
		return fmt.Errorf("%w: %w", ErrIsolation, err)
	case "":
		if lost := new(net.OpError); errors.As(err, &lost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, io.ErrClosedPipe) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
			errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errClaim) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return err
}

// acknowledgementLost reports whether the connection ended before the answer came. The statement may or may not have
// been committed.
func acknowledgementLost(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrIsolation) {
		return false
	}
	return sqlstate.Of(err) == "" || sqlstate.ConnectionEnded(err)
}
