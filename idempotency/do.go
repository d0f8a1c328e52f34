package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Task describes one call of Do, DoTx or InTx: what to do once, and how to keep its answer.
type Task[T any] struct {
	Ref     Ref
	Content Fingerprint
	// Lease is the effect's timeout plus a margin. It must pass before an orchestrator's last attempt: see
	// RetrySchedule.
	Lease time.Duration
	// Reconcile, if set, is called first when an earlier worker may have made the effect. It looks for the effect at
	// the vendor. If it finds it, that is the answer, and the effect is not made again. Without Reconcile the effect is
	// made again under the same key, which is right if the vendor takes keys.
	Reconcile func(ctx context.Context, c *Claim) (answer T, found bool, err error)
	// Encode and Decode convert a value to an answer and back; JSON if nil. Every caller, including the first, gets the
	// value that Decode returns.
	Encode func(T) (Answer, error)
	Decode func(Answer) (T, error)
	// Overflow, if set, stores responses that are too long for the row.
	Overflow Overflow
}

// Result is the result of a Task.
type Result[T any] struct {
	Value T
	// Replayed: the value is the stored answer of an earlier call. This call did not make the effect.
	Replayed bool
	// Unrecorded says why a later call cannot get the value although the effect was made; nil if it can. ErrFenceLost:
	// the effect outlived its lease and another worker owns the key. An *UnkeptError: the key is completed, without the
	// answer. Any other error: the key could not be completed. Value is valid in all cases.
	Unrecorded error
}

// Effect makes the effect of a claim. Its return value decides how the claim ends:
//
//	no error         the value is the answer: it completes the claim, and every later call gets it
//	a *Failure       the same: a business failure is an answer
//	NoEffect(err)    nothing was done, and a retry makes sense: the claim is released
//	any other error  it is unknown whether the effect was made: the claim stays until its lease passes
//
// After a panic the ending is unknown too. Only the outermost error counts, not an error that it wraps. The context
// ends before the lease does.
type Effect[T any] func(ctx context.Context, c *Claim) (T, error)

// Do makes the effect once. If the effect did not run, the error is an *InFlightError, a *MismatchError, an
// *UnkeptError, or one from the database; Retryable says which of them are worth a retry. Do returns the effect's own
// error without its mark. It stores the answer before it returns, even if ctx has ended meanwhile.
func Do[T any](ctx context.Context, s *Service, t Task[T], effect Effect[T]) (Result[T], error) {
	if s.repo.nested {
		return Result[T]{}, ErrNested
	}
	if effect == nil {
		return Result[T]{}, ErrNoEffectGiven
	}
	c, replayed, err := t.take(ctx, s, Mint())
	if err != nil || c == nil {
		return replayed, err
	}
	within, cancel := c.Within(ctx)
	defer cancel()
	value, err := t.attempt(within, s, c, effect)
	failure, answered := err.(*Failure) //nolint:errorlint // only the outermost counts
	if err != nil && !answered {
		return Result[T]{}, s.endFailed(ctx, c, err)
	}
	end, stop := endingContext(ctx)
	defer stop()
	answer, seen, unkept := t.answer(end, c, value, failure)
	result := Result[T]{Value: seen, Unrecorded: s.Finish(end, c, answer)}
	if result.Unrecorded == nil {
		result.Unrecorded = unkept
	}
	return result, failure.orNil()
}

// DoTx makes an effect that consists of rows. Claim, effect and completion are parts of tx, which must be READ
// COMMITTED. The caller commits tx, and rolls it back after any error except a *Failure, which is recorded. If the
// answer cannot be kept, the error is an *UnkeptError and nothing is done yet. The effect must write only through tx: a
// second connection could wait for the first forever.
func DoTx[T any](ctx context.Context, s *Service, tx pgx.Tx, t Task[T], effect Effect[T]) (Result[T], error) {
	if effect == nil {
		return Result[T]{}, ErrNoEffectGiven
	}
	result, _, err := t.doIn(ctx, s.In(tx), Mint(), effect)
	return result, err
}

// txEnd says how far an attempt in a transaction got.
type txEnd int

const (
	txBroken   txEnd = iota // one of our statements failed
	txRefused               // no claim was won, or the effect or its answer failed
	txAnswered              // the key is completed, by this transaction or an earlier one: commit
)

// doIn is DoTx with a given identity.
func (t *Task[T]) doIn(ctx context.Context, s *Service, who Identity, effect Effect[T]) (r Result[T], how txEnd, err error) {
	o, err := s.ClaimAs(ctx, who, t.Ref, t.Content, t.Lease)
	if err != nil {
		return r, txBroken, err
	}
	if err := o.Err(); err != nil {
		return r, txRefused, err
	}
	if o.Claim == nil {
		r, err = t.replay(ctx, o.Answer)
		r.Replayed = !o.Own // after a COMMIT whose answer was lost, the stored answer is this call's
		return r, txAnswered, err
	}
	within, cancel := o.Claim.Within(ctx)
	defer cancel()
	value, err := t.attempt(within, s, o.Claim, effect)
	failure, answered := err.(*Failure) //nolint:errorlint // only the outermost counts
	if err != nil && !answered {
		return r, txRefused, asEffectError(unmarked(err))
	}
	answer, seen, unkept := t.answer(ctx, o.Claim, value, failure)
	if unkept != nil {
		return r, txRefused, unkept
	}
	if _, err := s.Complete(ctx, o.Claim, answer); err != nil {
		return r, txBroken, err
	}
	return Result[T]{Value: seen}, txAnswered, failure.orNil()
}

// Peek returns the answer of the task's key without claiming it, for a caller that must check something before it
// claims. Not found: there is no answer, and the next Do makes the effect. *InFlightError and *MismatchError mean the
// same as from Do.
func Peek[T any](ctx context.Context, s *Service, t Task[T]) (answer Result[T], found bool, err error) {
	o, err := s.Read(ctx, t.Ref, t.Content)
	if err == nil {
		err = o.Err()
	}
	if err != nil || o.Kind != Completed {
		return answer, false, err
	}
	answer, err = t.replay(ctx, o.Answer)
	return answer, true, err
}

// take claims the key. If it returns neither a claim nor an error, the result is the stored answer.
func (t *Task[T]) take(ctx context.Context, s *Service, who Identity) (*Claim, Result[T], error) {
	o, err := s.ClaimAs(ctx, who, t.Ref, t.Content, t.Lease)
	if err == nil {
		err = o.Err()
	}
	if err != nil || o.Claim != nil {
		return o.Claim, Result[T]{}, err
	}
	result, err := t.replay(ctx, o.Answer)
	result.Replayed = !o.Own // after a COMMIT whose answer was lost, the stored answer is this call's
	return nil, result, err
}

// attempt reconciles or makes the effect. It does not recover from a panic.
func (t *Task[T]) attempt(ctx context.Context, s *Service, c *Claim, effect Effect[T]) (value T, err error) {
	returned := false
	defer func() {
		if !returned {
			s.abandoned(ctx, c, errPanicked)
		}
	}()
	if c.Reclaimed && t.Reconcile != nil {
		answer, found, err := t.Reconcile(ctx, c)
		if err != nil || found {
			returned = true
			return answer, err
		}
	}
	value, err = effect(ctx, c)
	returned = true
	return value, err
}

// UnkeptError says that the key is completed, but Decode cannot return the answer: the response was not kept, or there
// is only a resource. The effect must not be repeated.
type UnkeptError struct {
	Ref      Ref
	Resource ResourceRef
	Unkept   Unkept // zero if the key was completed with only a resource
	Cause    error  // the encoding error; nil for a replay
}

func (e *UnkeptError) Error() string {
	text := fmt.Sprintf("%s %s is done, but its answer was not kept (%s)", e.Ref.Scope, e.Ref.Key, e.Unkept.Reason)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is makes the error an ErrUnkept.
func (e *UnkeptError) Is(target error) bool { return target == ErrUnkept }

// Unwrap returns the cause.
func (e *UnkeptError) Unwrap() error { return e.Cause }
