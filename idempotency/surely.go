package idempotency

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// claimTime is how long a claim goes on whose caller is gone.
const claimTime = 10 * time.Second

var errClaim = errors.New("idempotency: the claim took too long")

// surely runs a claim to its end. A statement that is cut off may have been committed, and the key would then be held
// for a whole lease though no effect began. So a claim that has a connection goes on when its caller is gone, and what it
// won is released.
func surely[O any](ctx context.Context, s *Service, run func(context.Context, *Service) (O, error), outcomes func(O) []Outcome) (O, error) {
	var none O
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if s.repo.nested || ctx.Done() == nil { // a transaction's claims end with it
		return run(ctx, s)
	}
	type ended struct {
		o        O
		err      error
		panicked any
	}
	var (
		done  = make(chan ended, 1)
		taken atomic.Bool // by the caller, or by this side once the caller is gone
	)
	detached, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(claimTime, func() { cut(errClaim) }) })
	go func() {
		defer cut(nil)
		defer stop()
		var e ended
		func() {
			defer func() { e.panicked = recover() }() // the caller's Fingerprint or Observer: it is the caller's to see
			e.o, e.err = run(detached, s.connecting(ctx))
		}()
		if !taken.CompareAndSwap(false, true) {
			s.giveBack(detached, outcomes(e.o))
			return
		}
		done <- e
	}()
	select {
	case e := <-done:
		if e.panicked != nil {
			panic(e.panicked)
		}
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

// connecting is the Service whose first batch waits for its connection no longer than the caller: nothing is on its way
// before.
func (s *Service) connecting(caller context.Context) *Service {
	pool, ok := s.repo.db.(checkedPool)
	if !ok {
		return s
	}
	t := *s
	t.repo.db = &connectingPool{checkedPool: pool, caller: caller}
	return &t
}

// connectingPool serves one claim.
type connectingPool struct {
	checkedPool
	caller context.Context // until the first connection
}

func (p *connectingPool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	acquire := ctx
	if p.caller != nil {
		acquire = p.caller
	}
	conn, err := p.Acquire(acquire)
	if err != nil {
		return unsentBatch{err: err}
	}
	p.caller = nil
	return checkedBatch{conn.SendBatch(ctx, b), conn}
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
