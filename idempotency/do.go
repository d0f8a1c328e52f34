package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Task is one call of Do or DoTx: what is to be done once, and how its answer is kept.
type Task[T any] struct {
	Ref     Ref
	Content Fingerprint
	// Lease is the effect's time-out and a margin. It must pass before an orchestrator's last attempt:
	// see RetrySchedule.
	Lease time.Duration
	// Reconcile, if set, is called first when an earlier worker may have made the effect. It finds out
	// at the vendor: what it finds is the answer, and the effect is not made again. Without it the
	// effect is made again, under the same key, which is right if the vendor takes keys.
	Reconcile func(ctx context.Context, c *Claim) (answer T, found bool, err error)
	// Encode and Decode turn a value into an answer and back; JSON if nil. A value that is too long for
	// the row is stored elsewhere by Encode, which then gives a Resource.
	Encode func(T) (Answer, error)
	Decode func(Answer) (T, error)
}

// Result is how a Task ended.
type Result[T any] struct {
	Value T
	// Replayed: the value is the stored answer of an earlier call. The effect was not made now.
	Replayed bool
	// Unrecorded says why the answer is not stored although the effect was made; nil when it is.
	// ErrFenceLost: the effect outlived its lease and another worker owns the key. The value stands.
	Unrecorded error
}

// Effect makes the effect of a claim. How it returns decides how the claim ends. Without an error the value
// is the answer and completes it, be it a good one or a business failure: the next call gets the same. An
// error marked by NoEffect releases it, and the next call makes the effect anew. Any other error, and a
// panic, abandons it: it is unknown whether the effect was made, so nobody makes it again before the lease
// has passed, and then whoever reclaims the key is told. Its context ends before the lease does.
type Effect[T any] func(ctx context.Context, c *Claim) (T, error)

// NoEffect marks an error after which certainly nothing was done and that is worth repeating, such as a
// vendor's 429. It is nil for nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffectError{err}
}

type noEffectError struct{ err error }

func (e *noEffectError) Error() string { return e.err.Error() }
func (e *noEffectError) Unwrap() error { return e.err }

// UnkeptError says that a key is completed, but that its answer is not what Decode can give back: the
// response was not kept, or there is only a resource. The effect must not be repeated.
type UnkeptError struct {
	Ref      Ref
	Resource ResourceRef
	Unkept   Unkept // zero if the key was completed with a resource alone
}

func (e *UnkeptError) Error() string {
	return fmt.Sprintf("%s %s is done, its answer was not kept (%s)", e.Ref.Scope, e.Ref.Key, e.Unkept.Reason)
}

// Do makes the effect once. The errors of a call that did not come to it are an *InFlightError, a
// *MismatchError, an *UnkeptError, or what the database could not decide. The effect's own error is returned
// as it is.
func Do[T any](ctx context.Context, s *Service, t Task[T], effect Effect[T]) (Result[T], error) {
	c, replayed, err := take(ctx, s, &t)
	if err != nil || c == nil {
		return replayed, err
	}
	within, cancel := c.Within(ctx)
	defer cancel()
	value, sure, err := t.attempt(within, c, effect)
	if err != nil {
		return Result[T]{}, s.giveUp(ctx, c, err, sure)
	}
	end, cancel := ending(ctx)
	defer cancel()
	recorded, err := s.Complete(end, c, t.encode(value))
	for errors.Is(err, ErrLockTimeout) && end.Err() == nil { // each try waits; the holder ends
		recorded, err = s.Complete(end, c, t.encode(value))
	}
	if err == nil && !recorded {
		err = ErrFenceLost
	}
	return Result[T]{Value: value, Unrecorded: err}, nil
}

// DoTx makes an effect that is rows: claim, effect and completion are parts of tx, which must be READ
// COMMITTED and which the caller commits, or rolls back after any error. The effect must write through tx
// alone: a second connection could wait for the first for ever.
func DoTx[T any](ctx context.Context, s *Service, tx pgx.Tx, t Task[T], effect Effect[T]) (Result[T], error) {
	s = s.In(tx)
	c, replayed, err := take(ctx, s, &t)
	if err != nil || c == nil {
		return replayed, err
	}
	within, cancel := c.Within(ctx)
	defer cancel()
	value, _, err := t.attempt(within, c, effect)
	if err != nil {
		return Result[T]{}, err
	}
	if _, err := s.Complete(ctx, c, t.encode(value)); err != nil {
		return Result[T]{}, err
	}
	return Result[T]{Value: value}, nil
}

// take claims the key. Without a claim and without an error the result is the stored answer.
func take[T any](ctx context.Context, s *Service, t *Task[T]) (*Claim, Result[T], error) {
	o, err := s.Claim(ctx, t.Ref, t.Content, t.Lease)
	if err == nil {
		err = o.Err()
	}
	if err != nil || o.Claim != nil {
		return o.Claim, Result[T]{}, err
	}
	value, err := t.decode(o.Answer)
	if err != nil {
		return nil, Result[T]{}, err
	}
	return nil, Result[T]{Value: value, Replayed: true}, nil
}

// attempt reconciles or makes the effect. Sure: an error marked by NoEffect means that nobody made it, not
// even an earlier worker.
func (t *Task[T]) attempt(ctx context.Context, c *Claim, effect Effect[T]) (value T, sure bool, err error) {
	if c.Reclaimed && t.Reconcile != nil {
		value, found, err := t.Reconcile(ctx, c)
		if err != nil || found {
			return value, false, err
		}
		value, err = effect(ctx, c)
		return value, true, err
	}
	value, err = effect(ctx, c)
	return value, !c.Reclaimed, err
}

// giveUp ends a claim whose effect failed, and returns the effect's error.
func (s *Service) giveUp(ctx context.Context, c *Claim, failure error, sure bool) error {
	var none *noEffectError
	if !errors.As(failure, &none) {
		return failure // abandoned: the lease runs out
	}
	end, cancel := ending(ctx)
	defer cancel()
	var err error
	if sure {
		_, err = s.Release(end, c)
	} else {
		// An earlier worker may have made the effect: the row must stay to say so, only its lease ends.
		var rec *record
		rec, err = s.repo.lapse(end, c.Identity)
		s.observe(ctx, Event{Op: OpRelease, Ref: c.Ref, Kind: Claimed, Reclaimed: c.Reclaimed, FenceLost: rec == nil})
	}
	if err != nil {
		return errors.Join(failure, err) // the lease ends it
	}
	return failure
}

// endingTime is how long a claim's ending may take once the effect is over.
const endingTime = 10 * time.Second

// ending is a context for the end of a claim: a caller that hung up must not keep it from being recorded.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), endingTime, errors.New("ending a claim took too long"))
}

var errLeaseEnds = errors.New("idempotency: the claim's lease ends")

// Within is the context to make the effect under: it ends a tenth of what is left of the lease, at most 5 s,
// before the lease does.
func (c *Claim) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	margin := max(min(time.Until(c.Deadline)/10, 5*time.Second), 0)
	return context.WithDeadlineCause(ctx, c.Deadline.Add(-margin), errLeaseEnds)
}

// encode never fails: what cannot be encoded is completed with a stub that says so.
func (t *Task[T]) encode(value T) Answer {
	var a Answer
	var err error
	if t.Encode != nil {
		a, err = t.Encode(value)
	} else {
		a.Response, err = json.Marshal(value)
	}
	if err != nil || a.validate() != nil {
		a.Response = json.RawMessage(fmt.Sprintf("unencodable %T", value)) // no JSON, so it becomes a stub
		if a.validate() != nil {
			a.Resource = ResourceRef{}
		}
	}
	return a
}

func (t *Task[T]) decode(a Answer) (value T, err error) {
	unkept, cut := a.Unkept()
	if cut || t.Decode == nil && a.Response == nil {
		return value, &UnkeptError{Ref: t.Ref, Resource: a.Resource, Unkept: unkept}
	}
	if t.Decode != nil {
		value, err = t.Decode(a)
	} else {
		err = json.Unmarshal(a.Response, &value)
	}
	if err != nil {
		return value, fmt.Errorf("decode the stored answer: %w", err)
	}
	return value, nil
}
