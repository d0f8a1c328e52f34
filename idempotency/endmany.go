package idempotency

import (
	"context"
	"errors"
	"fmt"
)

// End is how a claim of a batch ends. Do chooses it by the effect's error.
type End int

// The ends.
const (
	// EndAnswered: the answer completes the claim.
	EndAnswered End = iota
	// EndNoEffect: certainly nothing was done, and a retry makes sense. The claim is released.
	EndNoEffect
	// EndUnknown: it is unknown whether the effect was made. The claim stays until its lease passes.
	EndUnknown
)

// Ending is how one claim of a CompleteMany ends. EndAnswered, the zero End, takes an answer; the others take none.
type Ending struct {
	Claim  *Claim
	Answer Answer
	End    End
}

// ErrEnd refuses an Ending whose End is not one of the three, or that has an answer although its End takes none.
var ErrEnd = errors.New("idempotency: invalid End, or an answer with an End that takes none")

func (e *Ending) validate() error {
	switch {
	case e.End == EndAnswered:
		return e.Answer.validate()
	case e.End != EndNoEffect && e.End != EndUnknown, e.Answer.Response != nil, e.Answer.Resource != ResourceRef{}:
		return ErrEnd
	}
	return nil
}

var errUnknownEnd = errors.New("the caller does not know whether the effect was made")

// CompleteMany ends claims in any order, as if Complete and Release were called for one after the other: first all
// answers in one round trip, then the releases. Recorded is in the order given. True: the answer is stored, or the
// claim is released. False: another worker owns the key, or the claim stays until its lease passes. A bad item is an
// error that names its index, before anything is sent. After any other error, recorded says what is known to hold, and
// it is safe to repeat the whole call. Call CompleteMany at most once per transaction; there it must end the claims of
// one ClaimMany.
func (s *Service) CompleteMany(ctx context.Context, endings []Ending) (recorded []bool, err error) {
	var answered []Ending
	var at []int // the indexes of the answered items
	for i := range endings {
		if err := endings[i].validate(); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if endings[i].End == EndAnswered {
			answered, at = append(answered, endings[i]), append(at, i)
		}
	}
	recorded = make([]bool, len(endings))
	stored, err := s.completeMany(ctx, answered)
	if err != nil {
		return recorded, err
	}
	var failed []error
	fail := func(i int, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("item %d: %w", i, err))
		}
	}
	for n, i := range at {
		recorded[i], err = s.ended(ctx, endings[i].Claim, OpComplete, stored[n], nil)
		fail(i, err)
	}
	for i, e := range endings {
		switch e.End {
		case EndNoEffect:
			recorded[i], err = s.Release(ctx, e.Claim)
			fail(i, err)
		case EndUnknown:
			s.abandoned(ctx, e.Claim, errUnknownEnd)
		}
	}
	return recorded, errors.Join(failed...)
}
