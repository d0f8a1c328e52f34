package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// What no call accepts. Nothing was sent to the database.
var (
	ErrOrganization = errors.New("idempotency: no organization")
	ErrScope        = errors.New("idempotency: scope without a retention")
	ErrKey          = errors.New("idempotency: not a key")
	ErrHash         = errors.New("idempotency: not a hash")
	ErrIdentity     = errors.New("idempotency: no claim id or lease token")
	ErrLease        = errors.New("idempotency: lease must be between 1 ms and 30 days")
	// ErrEmptyAnswer refuses a completion without a response and without a whole resource: it would
	// replay an empty success. The claim is still held.
	ErrEmptyAnswer = errors.New("idempotency: an answer needs a response or a resource with type and id")
)

// What the database could not decide. None of them says anything about the effect.
var (
	// ErrLockTimeout: an uncommitted transaction held the key for longer than the wait allowed. Nothing
	// is known and nothing was taken. Under an orchestrator treat it as in flight; at a webhook's door
	// settle the delivery again, since the holder may roll back.
	ErrLockTimeout = errors.New("idempotency: key is locked by an open transaction")
	// ErrContended: the key changed hands on every attempt. It is in flight (errors.Is ErrInFlight).
	ErrContended = fmt.Errorf("idempotency: key changed hands too often: %w", ErrInFlight)
	// ErrIsolation: the transaction is not READ COMMITTED, under which alone the claim is correct.
	ErrIsolation = errors.New("idempotency: transaction must be READ COMMITTED: begin it so, " +
		"or set default_transaction_isolation = 'read committed'")
	// ErrFenceLost: inside a transaction, another worker took the claim over. The effect is the other
	// worker's to make, so the transaction must roll back. Outside one a lost fence is no error.
	ErrFenceLost = errors.New("idempotency: the claim moved on, roll back")
	// ErrInFlight is what an *InFlightError is: retry later with the same key.
	ErrInFlight = errors.New("idempotency: claim in flight")
	// ErrMismatch is what a *MismatchError is: never retry, a key was reused for other content.
	ErrMismatch = errors.New("idempotency: KEY_MISMATCH")
)

// InFlightError says that another worker holds a live lease on the key.
type InFlightError struct {
	Ref        Ref
	RetryAfter time.Duration // what is left of the lease
}

func (e *InFlightError) Error() string {
	return fmt.Sprintf("claim of %s %s in flight, its lease passes in %s", e.Ref.Scope, e.Ref.Key, e.RetryAfter)
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

// explain names the errors of PostgreSQL that a caller branches on; the *pgconn.PgError stays reachable.
func explain(err error) error {
	switch pgCode(err) {
	case "55P03":
		return fmt.Errorf("%w: %w", ErrLockTimeout, err)
	case "40001":
		return fmt.Errorf("%w: %w", ErrIsolation, err)
	}
	return err
}

func pgCode(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// acknowledgementLost reports that the connection ended before the answer came: the statement may have
// been committed or not.
func acknowledgementLost(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrIsolation) {
		return false
	}
	switch code := pgCode(err); {
	case code == "":
		return true
	default:
		return len(code) == 5 && (code[:2] == "08" || code[:3] == "57P")
	}
}
