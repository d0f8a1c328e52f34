package idempotency

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// claimTime bounds a claim whose caller is gone.
const claimTime = 10 * time.Second

var errClaim = errors.New("idempotency: the claim took too long")

// surely runs a claim to its end. A statement that is cut off may have been committed, and the key would then be held
// for a whole lease though no effect began. So the claim goes on when its caller is gone, and what it won is released.
func surely[O any](ctx context.Context, s *Service, run func(context.Context) (O, error), outcomes func(O) []Outcome) (O, error) {
	var none O
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if s.repo.nested || ctx.Done() == nil { // a transaction's claims end with it
		return run(ctx)
	}
	type ended struct {
		o   O
		err error
	}
	var (
		done  = make(chan ended, 1)
		taken atomic.Bool // by the caller, or by this side once the caller is gone
	)
	detached, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), claimTime, errClaim)
	go func() {
		defer cancel()
		o, err := run(detached)
		if !taken.CompareAndSwap(false, true) {
			s.giveBack(detached, outcomes(o))
			return
		}
		done <- ended{o, err}
	}()
	select {
	case e := <-done:
		return e.o, e.err
	case <-ctx.Done():
	}
	if taken.CompareAndSwap(false, true) {
		return none, context.Cause(ctx)
	}
	e := <-done
	s.giveBack(ctx, outcomes(e.o))
	return none, context.Cause(ctx)
}

// giveBack releases what was claimed for a caller that is gone.
func (s *Service) giveBack(ctx context.Context, outcomes []Outcome) {
	end, cancel := ending(ctx)
	defer cancel()
	for _, o := range outcomes {
		if o.Claim != nil {
			_, _ = s.Release(end, o.Claim) // the lease ends it otherwise
		}
	}
}
