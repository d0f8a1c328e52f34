package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

func TestMisuse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	if _, err := idempotency.NewService(nil, idempotency.Options{}); !errors.Is(err, idempotency.ErrPool) {
		t.Errorf("no pool: %v", err)
	}
	tx := b.begin()
	if _, err := idempotency.Do(ctx, b.keys.In(tx), task[int](b.ref("tool.x", "1")), answering(1)); !errors.Is(err, idempotency.ErrNested) {
		t.Errorf("Do in a transaction: %v", err)
	}
	inTx := func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) { return 1, nil }
	if _, err := idempotency.InTx(ctx, b.keys.In(tx), task[int](b.ref("tool.x", "1")), inTx); !errors.Is(err, idempotency.ErrNested) {
		t.Errorf("InTx in a transaction: %v", err)
	}
	for name, call := range map[string]func() error{
		"Do": func() error { _, err := idempotency.Do(ctx, b.keys, task[int](b.ref("tool.x", "2")), nil); return err },
		"DoTx": func() error {
			_, err := idempotency.DoTx(ctx, b.keys, tx, task[int](b.ref("tool.x", "2")), nil)
			return err
		},
		"InTx": func() error {
			_, err := idempotency.InTx(ctx, b.keys, task[int](b.ref("tool.x", "2")), nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, idempotency.ErrNoEffectGiven) {
			t.Errorf("%s without an effect: %v", name, err)
		}
	}
	effects, err := b.keys.NewEffects([]idempotency.Item{b.item(b.ref("webhook.nylas", "1"), "1")}, lease)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`INSERT INTO effects VALUES (1)`, `INSERT INTO effects SELECT id FROM claimed;`, ``} {
		var batch pgx.Batch
		if err := effects.Queue(&batch, sql); !errors.Is(err, idempotency.ErrEffect) || batch.Len() != 0 {
			t.Errorf("%q: %v, %d statements", sql, err, batch.Len())
		}
	}
	if n := b.rows(); n != 0 {
		t.Errorf("%d keys are claimed", n)
	}
}

// NewService refuses a mode in which a batch would fail later.
func TestExecModes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for mode, works := range map[string]bool{
		"cache_statement": true, "cache_describe": true, "describe_exec": true, "exec": false, "simple_protocol": false,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pool, err := pgxpool.New(t.Context(), b.url+"&default_query_exec_mode="+mode)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			keys, err := idempotency.NewService(pool, idempotency.Options{})
			if !works {
				if !errors.Is(err, idempotency.ErrPool) || !strings.Contains(err.Error(), "default_query_exec_mode") {
					t.Errorf("got %v, want it refused by name", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			one, many := b.ref("tool.x", mode), b.ref("tool.x", mode+" many")
			if _, err := idempotency.Do(t.Context(), keys, task[int](one), answering(1)); err != nil {
				t.Errorf("Do: %v", err)
			}
			all, err := keys.ClaimMany(t.Context(), []idempotency.Wanted{{Ref: one, Content: content("1")}, {Ref: many, Content: content("1")}}, lease)
			if err != nil || all[0].Kind != idempotency.Completed || all[1].Kind != idempotency.Claimed {
				t.Fatalf("ClaimMany: %+v, %v", all, err)
			}
			recorded, err := keys.CompleteMany(t.Context(), []idempotency.Ending{{Claim: all[1].Claim, Answer: response(`1`)}})
			if err != nil || !recorded[0] {
				t.Errorf("CompleteMany: %v, %v", recorded, err)
			}
			e, err := keys.NewEffects([]idempotency.Item{b.item(b.ref("webhook.nylas", mode), "1")}, lease)
			if err != nil {
				t.Fatal(err)
			}
			batch := &pgx.Batch{}
			if err := e.Queue(batch, `SELECT id FROM claimed`); err != nil {
				t.Fatal(err)
			}
			if err := pool.SendBatch(t.Context(), batch).Close(); err != nil || e.Verdicts()[0] != idempotency.Claimed {
				t.Errorf("Effects: %v, %v", e.Verdicts(), err)
			}
		})
	}
}
