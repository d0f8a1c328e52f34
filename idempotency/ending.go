package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"
)

// NoEffect marks an error after which certainly nothing was done and a retry makes sense, such as a vendor's 429. It
// returns nil for nil. Only the error that the effect itself returns counts: inside another error the mark has no
// meaning.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffectError{err}
}

type noEffectError struct{ err error }

func (e *noEffectError) Error() string { return e.err.Error() }
func (e *noEffectError) Unwrap() error { return e.err }

// unmarked returns an effect's error without the mark. The mark is only for the effect's own Do: an outer effect that
// returns the error of an inner Do has not marked it.
func unmarked(err error) error {
	if none, ok := err.(*noEffectError); ok { //nolint:errorlint // only the outermost counts
		return none.err
	}
	return err
}

// Failure is a business failure, which is an answer: not_found, invalid_input. An effect returns it as its error. It
// completes the key, and every later call gets an equal one. Its texts are stored, so they must not contain secrets.
type Failure struct {
	Code    string          `json:"code"` // for programs
	Message string          `json:"message,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (f *Failure) Error() string {
	if f.Message == "" {
		return f.Code
	}
	return f.Code + ": " + f.Message
}

// orNil returns the failure as an error, nil for none.
func (f *Failure) orNil() error {
	if f == nil {
		return nil
	}
	return f
}

const failureStart = `{"idempotency:failure":`

// answer returns the failure as the row keeps it.
func (f *Failure) answer() Answer {
	text, err := json.Marshal(f)
	if err != nil { // Data is not JSON
		text, _ = json.Marshal(&Failure{Code: f.Code, Message: f.Message}) // strings always marshal
	}
	return Answer{Response: json.RawMessage(failureStart + string(text) + "}")}
}

// FailureAnswer returns a failure as an answer, for callers of Complete and CompleteMany.
func FailureAnswer(f *Failure) Answer { return f.answer() }

// Failure returns the business failure in the answer. False: the answer is not a failure.
func (a Answer) Failure() (*Failure, bool) {
	text, ok := bytes.CutPrefix(a.Response, []byte(failureStart))
	if !ok {
		return nil, false
	}
	var f Failure
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&f); err != nil {
		return nil, false
	}
	return &f, true
}

// endingTime is the maximum time for a claim's ending once the effect is over.
const endingTime = 10 * time.Second

var errEnding = errors.New("idempotency: the claim could not be ended in time")

// endingContext returns a context for the end of a claim. A caller that hung up must not prevent the record.
func endingContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), endingTime, errEnding)
}

// The pauses between the attempts to complete a claim.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Finish completes a claim whose effect was made. While the error is temporary, it retries for ten seconds, even if ctx
// has ended: an answer that is not stored means that the effect is repeated. ErrFenceLost: another worker owns the key.
// After any other error it is unknown whether the answer is stored.
func (s *Service) Finish(ctx context.Context, c *Claim, a Answer) error {
	if s.repo.nested {
		return ErrNested
	}
	end, cancel := endingContext(ctx)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		recorded, err := s.Complete(end, c, a)
		switch {
		case err == nil && recorded:
			return nil
		case err == nil:
			return ErrFenceLost
		case !temporary(err):
			s.observe(ctx, Event{Op: OpComplete, Ref: c.Ref, Kind: Claimed, Reclaimed: c.Reclaimed, Err: err})
			return err
		}
		select {
		case <-time.After(pause):
		case <-end.Done():
			s.observe(ctx, Event{Op: OpComplete, Ref: c.Ref, Kind: Claimed, Reclaimed: c.Reclaimed, Err: err})
			return errors.Join(context.Cause(end), err)
		}
	}
}

// endFailed ends a claim whose effect failed, and returns the effect's error.
func (s *Service) endFailed(ctx context.Context, c *Claim, failure error) error {
	plain := unmarked(failure)
	if plain == failure { //nolint:errorlint // the same value, unless a mark was taken off
		s.abandoned(ctx, c, failure)
		return asEffectError(failure) // the lease runs out
	}
	end, cancel := endingContext(ctx)
	defer cancel()
	if _, err := s.Release(end, c); err != nil {
		return asEffectError(errors.Join(plain, err)) // the lease ends the claim
	}
	return asEffectError(plain)
}

// asEffectError wraps an effect's own error, which Retryable does not judge.
func asEffectError(err error) error { return &effectError{err} }

type effectError struct{ err error }

func (e *effectError) Error() string { return e.err.Error() }
func (e *effectError) Unwrap() error { return e.err }

var errPanicked = errors.New("the effect panicked")

// abandoned reports to the observer that a claim stays until its lease passes.
func (s *Service) abandoned(ctx context.Context, c *Claim, why error) {
	s.observe(ctx, Event{Op: OpAbandon, Ref: c.Ref, Kind: Claimed, Reclaimed: c.Reclaimed, Err: why})
}
