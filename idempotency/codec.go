package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Overflow stores responses that are too long for a row, for example in a bucket or a table of files. The row then
// holds the reference. It must be safe for concurrent use and keep responses for the retention of the scope. In a
// transaction (DoTx, InTx) it must not use the Service's pool, which may be waiting for that transaction, and what it
// stores survives a rollback.
type Overflow interface {
	// Put stores the response of a claim. It may be called again for the same claim.
	Put(ctx context.Context, c *Claim, response []byte) (ResourceRef, error)
	// Get returns the response given to Put.
	Get(ctx context.Context, ref ResourceRef) ([]byte, error)
}

// overflowed is the response that the row holds beside the reference to an overflowed one.
const overflowed = `{"idempotency:overflow":true}`

// answer returns the answer that completes a claim, and the value that every caller sees. If the answer cannot be kept,
// a stub replaces it and unkept says why.
func (t *Task[T]) answer(ctx context.Context, c *Claim, value T, failure *Failure) (a Answer, seen T, unkept error) {
	if failure != nil {
		a = failure.answer()
		return a, seen, t.unkeptError(a, nil)
	}
	a, err := t.encode(value)
	if err == nil {
		err = a.validate()
	}
	if err != nil {
		a = Answer{Response: json.RawMessage(stub(reasonUnencodable, nil))}
		return a, value, t.unkeptError(a, err)
	}
	if reserved(a.Response) {
		a.Response = json.RawMessage(stub("reserved", a.Response))
	}
	if t.Overflow != nil && len(a.Response) > MaxResponse && a.Resource == (ResourceRef{}) {
		if seen, err = t.decode(a); err != nil {
			return a, value, fmt.Errorf("decode the answer: %w", err)
		}
		var ref ResourceRef
		err := guarded("store the response in Overflow", func() (err error) { ref, err = t.Overflow.Put(ctx, c, a.Response); return err })
		if err != nil {
			return a, seen, t.unkeptError(a, fmt.Errorf("store a response of %d bytes: %w", len(a.Response), err))
		}
		return Answer{Resource: ref, Response: json.RawMessage(overflowed)}, seen, nil
	}
	if unkept = t.unkeptError(a, nil); unkept != nil {
		return a, value, unkept
	}
	if t.Decode == nil && a.Response == nil {
		return a, value, nil // only a resource: later calls get an *UnkeptError that names it
	}
	if seen, err = t.decode(a); err != nil {
		return a, value, fmt.Errorf("decode the answer, as the next call will: %w", err)
	}
	return a, seen, nil
}

// unkeptError returns an *UnkeptError for an answer whose response the row cannot hold.
func (t *Task[T]) unkeptError(a Answer, cause error) error {
	reason := unkeepable(a.Response)
	if u, is := a.Unkept(); is {
		return &UnkeptError{Ref: t.Ref, Resource: a.Resource, Unkept: u, Cause: cause}
	}
	if a.Response == nil || reason == "" {
		return nil
	}
	return &UnkeptError{Ref: t.Ref, Resource: a.Resource, Unkept: unkeptOf(reason, a.Response), Cause: cause}
}

// guarded calls a function of the caller after the effect was made. It returns a panic as an error: the claim must
// still end.
func guarded(what string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic of type %T", what, p)
		}
	}()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// encode encodes a value as an answer.
func (t *Task[T]) encode(value T) (a Answer, err error) {
	err = guarded("encode the answer", func() (err error) {
		if t.Encode != nil {
			a, err = t.Encode(value)
		} else {
			a.Response, err = json.Marshal(value)
		}
		return err
	})
	return a, err
}

// replay returns the stored answer as a result, or the failure that it holds.
func (t *Task[T]) replay(ctx context.Context, a Answer) (Result[T], error) {
	r := Result[T]{Replayed: true}
	if failure, is := a.Failure(); is {
		return r, failure
	}
	if string(a.Response) == overflowed {
		if t.Overflow == nil {
			return r, &UnkeptError{Ref: t.Ref, Resource: a.Resource, Unkept: Unkept{Reason: "overflow"}, Cause: errNoOverflow}
		}
		var response []byte
		err := guarded("get the response from Overflow", func() (err error) { response, err = t.Overflow.Get(ctx, a.Resource); return err })
		if err != nil {
			return r, fmt.Errorf("get the overflowed response %s %s: %w", a.Resource.Type, a.Resource.ID, err)
		}
		a = Answer{Response: response}
	}
	value, err := t.decode(a)
	r.Value = value
	return r, err
}

var errNoOverflow = errors.New("the task has no Overflow")

func (t *Task[T]) decode(a Answer) (value T, err error) {
	unkept, cut := a.Unkept()
	if cut || t.Decode == nil && a.Response == nil {
		return value, &UnkeptError{Ref: t.Ref, Resource: a.Resource, Unkept: unkept}
	}
	err = guarded("decode the stored answer", func() (err error) {
		if t.Decode != nil {
			value, err = t.Decode(a)
		} else {
			err = json.Unmarshal(a.Response, &value)
		}
		return err
	})
	return value, err
}
