package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// order makes an effect that is a row, once for its key, in a transaction.
func (b *bundle) order(ctx context.Context, pool *pgxpool.Pool, r idempotency.Ref, effect func(pgx.Tx) error) (result idempotency.Result[string], err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		result, err = idempotency.DoTx(ctx, b.patient(), tx, idempotency.Task[string]{Ref: r, Content: content("1"), Lease: lease},
			func(ctx context.Context, c *idempotency.Claim) (string, error) {
				if _, err := tx.Exec(ctx, `INSERT INTO journal VALUES ($1, $2)`, c.ID, c.Ref.Key.String()); err != nil {
					return "", err
				}
				return "made", effect(tx)
			})
		return err
	})
	return result, err
}

func done(pgx.Tx) error { return nil }

func TestTxIsAtomic(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	r := b.ref("tool.order", "k")
	for name, fail := range map[string]func(pgx.Tx) error{
		"the effect fails": func(pgx.Tx) error { return errors.New("no") },
		"the commit fails": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `CREATE TABLE IF NOT EXISTS late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES (1), (1)`)
			return err
		},
		"the connection ends": func(tx pgx.Tx) error { return tx.Conn().Close(t.Context()) },
	} {
		if _, err := b.order(t.Context(), b.pool, r, fail); err == nil {
			t.Errorf("%s: no error", name)
		}
		if b.wantEffects(0); b.rows() != 0 {
			t.Errorf("%s: the claim is still there", name)
		}
	}
	for attempt := range 3 {
		got, err := b.order(t.Context(), b.pool, r, done)
		if err != nil || got.Value != "made" || got.Replayed != (attempt > 0) || got.Unrecorded != nil {
			t.Errorf("attempt %d: %+v, %v", attempt, got, err)
		}
		b.wantEffects(1)
	}
}

func TestTxRollbackThenOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	for round := range 15 {
		r := b.ref("tool.order", strconv.Itoa(round))
		errs := together(10, func(i int) error {
			_, err := b.order(t.Context(), b.pool, r, func(pgx.Tx) error {
				if i == 0 {
					return errors.New("rolled back")
				}
				return nil
			})
			return err
		})
		for i, err := range errs {
			if i > 0 && err != nil {
				t.Error(err)
			}
		}
		b.wantEffects(round + 1)
	}
}

func TestTxSurvivesLockTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	r := b.ref("tool.order", "k")
	holder := b.begin()
	if _, err := b.keys.In(holder).Claim(t.Context(), r, content("1"), lease); err != nil {
		t.Fatal(err)
	}
	tx := b.begin()
	for _, sql := range []string{`SET LOCAL lock_timeout = '7s'`, `INSERT INTO journal VALUES (gen_random_uuid(), 'earlier work')`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	keys := b.keys.In(tx)
	if _, err := keys.Claim(t.Context(), r, content("1"), lease); !errors.Is(err, idempotency.ErrLockTimeout) {
		t.Fatalf("got %v, want ErrLockTimeout", err)
	}
	if o, err := keys.Claim(t.Context(), b.ref("tool.order", "other"), content("1"), lease); err != nil || o.Kind != idempotency.Claimed {
		t.Fatalf("%+v, %v", o, err)
	}
	var wait, scans string
	err := tx.QueryRow(t.Context(), `SELECT current_setting('lock_timeout'), current_setting('enable_seqscan')`).Scan(&wait, &scans)
	if err != nil || wait != "7s" || scans != "on" {
		t.Errorf("the caller's lock_timeout is %q and enable_seqscan %q, %v", wait, scans, err)
	}
	b.commit(tx)
	b.wantEffects(1)
}

func TestTxIsolation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known, fresh := b.ref("tool.order", "known"), b.ref("tool.order", "fresh")
	b.complete(b.own(known, content("1")), response(`1`))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, r := range []idempotency.Ref{known, fresh} {
			tx := b.beginAs(level)
			keys := b.keys.In(tx)
			if _, err := keys.Claim(t.Context(), r, content("1"), lease); !errors.Is(err, idempotency.ErrIsolation) {
				t.Errorf("claim under %s: %v, want ErrIsolation", level, err)
			}
			if _, err := keys.ClaimMany(t.Context(), []idempotency.Wanted{{Ref: r, Content: content("1")}}, lease); !errors.Is(err, idempotency.ErrIsolation) {
				t.Errorf("claim many under %s: %v, want ErrIsolation", level, err)
			}
			if _, err := keys.Read(t.Context(), r, content("1")); !errors.Is(err, idempotency.ErrIsolation) {
				t.Errorf("read under %s: %v, want ErrIsolation", level, err)
			}
			b.commit(tx) // and the transaction is not aborted
		}
	}
	if n := b.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	// Outside a transaction the connection's default counts.
	serializable := open(t, b.url, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	})
	keys := idempotency.MustService(serializable, idempotency.Options{})
	if _, err := keys.Claim(t.Context(), fresh, content("1"), lease); !errors.Is(err, idempotency.ErrIsolation) || b.rows() != 1 {
		t.Errorf("got %v and %d rows, want ErrIsolation and 1", err, b.rows())
	}
}

func TestTxOneConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	single := open(t, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 {
		if _, err := b.order(ctx, single, b.ref("tool.order", "k"), done); err != nil {
			t.Fatal(err)
		}
	}
	b.wantEffects(1)
}

func TestTxFenceLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.order", "k")
	late := b.own(r, content("1"))
	b.pass(lease)
	b.own(r, content("1"))
	for name, end := range map[string]func(*idempotency.Service) error{
		"complete": func(s *idempotency.Service) error {
			_, err := s.Complete(t.Context(), late, response(`1`))
			return err
		},
		"complete many": func(s *idempotency.Service) error {
			_, err := s.CompleteMany(t.Context(), []idempotency.Ending{{Claim: late, Answer: response(`1`)}})
			return err
		},
		"release": func(s *idempotency.Service) error {
			_, err := s.Release(t.Context(), late)
			return err
		},
	} {
		if err := end(b.keys.In(b.begin())); !errors.Is(err, idempotency.ErrFenceLost) {
			t.Errorf("%s: %v, want ErrFenceLost", name, err)
		}
		if err := end(b.keys); err != nil {
			t.Errorf("%s outside a transaction: %v, want nothing", name, err)
		}
	}
}

func TestTxLeaseStartsAtClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx := b.begin()
	age := func() (d time.Duration) {
		if err := tx.QueryRow(t.Context(), `SELECT clock_timestamp() - now()`).Scan(&d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for age() < 30*time.Millisecond {
	}
	const short = time.Second
	fresh, dead, forgotten := b.ref("tool.order", "fresh"), b.ref("tool.order", "dead"), b.ref("tool.order", "forgotten")
	b.complete(b.own(forgotten, content("1")), response(`1`))
	b.pass(31 * 24 * time.Hour)
	b.own(dead, content("1"))
	b.pass(lease)
	for _, r := range []idempotency.Ref{fresh, dead, forgotten} {
		if o, err := b.keys.In(tx).Claim(t.Context(), r, content("1"), short); err != nil || o.Kind != idempotency.Claimed {
			t.Fatalf("%s: %+v, %v", r.Key, o, err)
		}
	}
	if _, err := b.keys.In(tx).ClaimMany(t.Context(), []idempotency.Wanted{{Ref: b.ref("tool.order", "many"), Content: content("1")}}, short); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), `SELECT key, claimed_at - now(), lease_expires_at - claimed_at, status FROM agent.idempotency_keys`)
	if err != nil {
		t.Fatal(err)
	}
	var key, status string
	var late, span time.Duration
	if _, err := pgx.ForEachRow(rows, []any{&key, &late, &span, &status}, func() error {
		if late < 30*time.Millisecond || span < short || span > short+100*time.Millisecond {
			return fmt.Errorf("%s was claimed %s after the transaction began, for %s", key, late, span)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestTxGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx := b.begin()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.keys.In(tx).Claim(t.Context(), b.ref("tool.order", "k"), content("1"), lease); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("got %v, want ErrTxClosed", err)
	}
	// A transaction that an earlier error aborted stays aborted.
	tx = b.begin()
	_, _ = tx.Exec(t.Context(), `SELECT 1/0`)
	if _, err := b.keys.In(tx).Claim(t.Context(), b.ref("tool.order", "k"), content("1"), lease); err == nil {
		t.Error("claimed in an aborted transaction")
	}
}
