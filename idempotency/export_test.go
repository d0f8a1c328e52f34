package idempotency

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// SweepSQL is the statement of a pass.
const SweepSQL = sweepSQL

// After returns a Service that calls then after the first batch that it sends.
func (s *Service) After(then func()) *Service {
	t := *s
	t.repo.db = &spied{DB: s.repo.db, then: then}
	return &t
}

type spied struct {
	DB
	then func()
}

func (s *spied) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	results := s.DB.SendBatch(ctx, b)
	if s.then != nil {
		return &spiedResults{results, s}
	}
	return results
}

type spiedResults struct {
	pgx.BatchResults
	spied *spied
}

func (r *spiedResults) Close() error {
	err := r.BatchResults.Close()
	if then := r.spied.then; then != nil {
		r.spied.then = nil
		then()
	}
	return err
}
