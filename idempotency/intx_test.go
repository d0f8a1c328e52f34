package idempotency_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

func TestInTx(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE effects (id int)`)
	var failing atomic.Bool
	effect := func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (int, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO effects VALUES (1)`); err != nil {
			return 0, err
		}
		if failing.Load() {
			return 0, errors.New("no")
		}
		return 7, nil
	}
	failing.Store(true)
	tk := task[int](b.ref("tool.x", "k"))
	if _, err := idempotency.InTx(t.Context(), b.keys, tk, effect); err == nil || b.rows() != 0 {
		t.Errorf("an effect that fails: %v, %d keys", err, b.rows())
	}
	failing.Store(false)
	for attempt := range 2 {
		got, err := idempotency.InTx(t.Context(), b.keys, tk, effect)
		if err != nil || got.Value != 7 || got.Replayed != (attempt > 0) {
			t.Errorf("attempt %d: %+v, %v", attempt, got, err)
		}
	}
	if n := one[int](b, `SELECT count(*) FROM effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
	// A business failure is an answer, and commits.
	failure := &idempotency.Failure{Code: "sold_out"}
	tk.Ref = b.ref("tool.x", "failure")
	for attempt := range 2 {
		got, err := idempotency.InTx(t.Context(), b.keys, tk, func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) { return 0, failure })
		if !errors.As(err, &failure) || got.Replayed != (attempt > 0) {
			t.Errorf("a failure, attempt %d: %+v, %v", attempt, got, err)
		}
	}
}

// The COMMIT is answered, but the answer is lost.
func TestInTxLostAcknowledgement(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		b.exec(`CREATE TABLE effects (id int)`)
		calls := 0
		got, err := idempotency.InTx(b.Context(), b.keys, task[int](b.ref("tool.x", "k")), func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (int, error) {
			calls++
			_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, calls)
			if calls == 1 {
				cut() // the completion, which precedes the COMMIT, or its answer
			}
			return 7, err
		})
		if err != nil || got.Value != 7 {
			b.Errorf("%+v, %v", got, err)
		}
		if n := one[int](b, `SELECT count(*) FROM effects`); n != 1 {
			b.Errorf("%d effects after %d calls", n, calls)
		}
	})
}
