package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// claimTime is how long a claim continues after its caller is gone.
const claimTime = 2 * time.Second

var errClaim = errors.New("idempotency: the claim took too long")

// runDetached runs a claim to its end. A statement that is cut off may have been committed, and the key would then be held
// for a whole lease without an effect. So a claim that has a connection continues for up to claimTime after its caller
// is gone, and is released if it won.
func runDetached[O any](ctx context.Context, s *Service, run func(context.Context, *Service) (O, error), outcomes func(O) []Outcome) (O, error) {
	if s.repo.nested || ctx.Done() == nil { // a transaction's claims end with it
		return run(ctx, s)
	}
	detached, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(claimTime, func() { cut(errClaim) }) })()
	o, err := run(detached, s.connecting(ctx))
	if ctx.Err() == nil {
		return o, err
	}
	s.releaseAll(ctx, outcomes(o))
	var none O
	return none, context.Cause(ctx)
}

// connecting returns the Service with a first batch that waits for its connection only as long as the caller does:
// before that nothing has been sent.
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

// releaseAll releases the claims of a caller that is gone.
func (s *Service) releaseAll(ctx context.Context, outcomes []Outcome) {
	end, cancel := endingContext(ctx)
	defer cancel()
	for _, o := range outcomes {
		if o.Claim != nil {
			_, _ = s.Release(end, o.Claim) // the lease ends it otherwise
		}
	}
}
