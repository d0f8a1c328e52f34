package idempotency

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// TxEffect is an Effect that consists of rows. It writes only through tx, which InTx begins and commits.
type TxEffect[T any] func(ctx context.Context, tx pgx.Tx, c *Claim) (T, error)

// InTx makes an effect that consists of rows in a new transaction: begin, claim, effect, completion and COMMIT are one
// call, and it returns the result only after the COMMIT. If the answer to the COMMIT was lost, InTx tries again under
// the same Identity: either it recognizes the commit, or it makes the effect again, because nothing of it was kept.
// After any error except a *Failure, everything is rolled back.
func InTx[T any](ctx context.Context, s *Service, t Task[T], effect TxEffect[T]) (Result[T], error) {
	if effect == nil {
		return Result[T]{}, ErrNoEffectGiven
	}
	if _, ok := s.pool(); !ok {
		return Result[T]{}, ErrNested
	}
	who := Mint()
	for n := 0; ; n++ {
		result, lost, err := t.inTx(ctx, s, who, effect)
		if !lost || n == maxResends {
			return result, err
		}
	}
}

// inTx makes one attempt. Lost: the connection ended, and another attempt finds out whether this one was committed.
func (t *Task[T]) inTx(ctx context.Context, s *Service, who Identity, effect TxEffect[T]) (result Result[T], lost bool, err error) {
	pool, _ := s.pool()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return result, false, fmt.Errorf("begin: %w", explain(err))
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return result, acknowledgementLost(ctx, err), fmt.Errorf("begin: %w", explain(err))
	}
	committed := false
	defer func() {
		if !committed {
			end, cancel := endingContext(ctx)
			defer cancel()
			_ = tx.Rollback(end) // a connection that is gone has rolled back
			s.observe(ctx, Event{Op: OpRollback, Ref: t.Ref, Err: err})
		}
	}()
	result, how, err := t.doIn(ctx, s.In(tx), who, func(ctx context.Context, c *Claim) (T, error) { return effect(ctx, tx, c) })
	if how != txAnswered {
		return Result[T]{}, how == txBroken && acknowledgementLost(ctx, err), err
	}
	if failed := tx.Commit(ctx); failed != nil {
		return Result[T]{}, acknowledgementLost(ctx, failed), fmt.Errorf("commit: %w", explain(failed))
	}
	committed = true
	if cancelled := CheckReplicated(conn.Conn()); cancelled != nil {
		return Result[T]{}, true, cancelled
	}
	return result, false, err
}
