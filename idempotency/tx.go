package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// TxEffect is an Effect that is rows: it writes through tx alone, which InTx begins and commits.
type TxEffect[T any] func(ctx context.Context, tx pgx.Tx, c *Claim) (T, error)

// InTx makes an effect that is rows in a transaction of its own: begin, claim, effect, completion and COMMIT are one
// call, and its result is of a transaction that is committed. A COMMIT whose answer was lost is asked for again, under
// the same Identity: it is recognised, or the effect is made once more, because nothing of it was kept. Any error but a
// *Failure has rolled everything back.
func InTx[T any](ctx context.Context, s *Service, t Task[T], effect TxEffect[T]) (Result[T], error) {
	if effect == nil {
		return Result[T]{}, ErrNoEffectGiven
	}
	if _, ok := s.pool(); !ok {
		return Result[T]{}, ErrNested
	}
	who := Mint()
	for n := 0; ; n++ {
		result, own, err := t.inTx(ctx, s, who, effect)
		if err == nil || own || n == maxResends || !acknowledgementLost(ctx, err) {
			return result, err
		}
	}
}

// inTx makes one attempt, and says whether its error is the effect's own.
func (t *Task[T]) inTx(ctx context.Context, s *Service, who Identity, effect TxEffect[T]) (result Result[T], own bool, err error) {
	pool, _ := s.pool()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return result, false, fmt.Errorf("begin: %w", explain(err))
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return result, false, fmt.Errorf("begin: %w", explain(err))
	}
	committed := false
	defer func() {
		if !committed {
			_ = tx.Rollback(context.WithoutCancel(ctx)) // a connection that is gone has rolled back
			s.observe(ctx, Event{Op: OpRollback, Ref: t.Ref, Err: err})
		}
	}()
	result, own, err = t.doIn(ctx, s.In(tx), who, func(ctx context.Context, c *Claim) (T, error) { return effect(ctx, tx, c) })
	var failure *Failure
	if err != nil && !errors.As(err, &failure) {
		return Result[T]{}, own, err
	}
	if lost := tx.Commit(ctx); lost != nil {
		return Result[T]{}, false, fmt.Errorf("commit: %w", explain(lost))
	}
	committed = true
	if lost := CheckReplicated(conn.Conn()); lost != nil {
		return Result[T]{}, false, lost
	}
	return result, own, err
}
