package idempotency_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// alone returns the bundle on one connection, so that every call uses the plans of that connection.
func (b *bundle) alone() *bundle {
	b.Helper()
	pool := open(b.T, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	same := *b
	same.pool, same.keys = pool, idempotency.MustService(pool, idempotency.Options{})
	return &same
}

// scans returns how often the whole table of keys was read, according to the server.
func (b *bundle) scans() int {
	b.Helper()
	b.exec(`SELECT pg_stat_force_next_flush()`)
	b.exec(`SELECT 1`) // the counts go out at the end of a transaction
	return one[int](b, `SELECT seq_scan FROM pg_stat_user_tables WHERE relid = 'agent.idempotency_keys'::regclass`)
}

// A connection keeps its plans. One that is made while the table is small, and reads all of it, would be used for each
// key once it is large.
func TestNoFullScan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		again func(b *bundle, known []idempotency.Ref)
	}{
		{"a batch with effects", func(b *bundle, known []idempotency.Ref) {
			var items []idempotency.Item
			for _, r := range known {
				items = append(items, b.item(r, "1"))
			}
			if _, err := b.settle(b.Context(), items); err != nil {
				b.Fatal(err)
			}
		}},
		{"a batch of claims", func(b *bundle, known []idempotency.Ref) {
			var wanted []idempotency.Wanted
			for _, r := range known {
				wanted = append(wanted, idempotency.Wanted{Ref: r, Content: content("1")})
			}
			b.claimMany(wanted...)
		}},
		{"claims one by one", func(b *bundle, known []idempotency.Ref) {
			for _, r := range known {
				b.claim(r, content("1"))
			}
		}},
		{"reads", func(b *bundle, known []idempotency.Ref) {
			for _, r := range known {
				b.read(r, content("1"))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.journal()
			var known []idempotency.Ref
			for i := range 20 {
				r := b.ref("webhook.nylas", fmt.Sprint(i))
				known = append(known, r)
				b.own(r, content("1"))
			}
			b.exec(`VACUUM ANALYZE agent.idempotency_keys`)
			single := b.alone()
			before := single.scans()
			for range 8 { // a plan for any value is made after five
				tt.again(single, known)
			}
			if n := single.scans() - before; n != 0 {
				t.Errorf("the table was read whole %d times", n)
			}
		})
	}
}

func TestEffectsRestorePlanner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	known := b.ref("webhook.nylas", "known")
	b.own(known, content("1"))
	for _, r := range []idempotency.Ref{known, b.ref("webhook.nylas", "fresh")} {
		for _, own := range []string{"on", "off"} {
			tx := b.begin()
			if _, err := tx.Exec(t.Context(), `SET LOCAL enable_seqscan = `+own); err != nil {
				t.Fatal(err)
			}
			it := b.item(r, "1")
			e, err := b.keys.NewEffects([]idempotency.Item{it}, lease)
			if err != nil {
				t.Fatal(err)
			}
			batch := &pgx.Batch{}
			if err := e.Queue(batch, effectSQL, []uuid.UUID{it.ID}, []string{"x"}); err != nil {
				t.Fatal(err)
			}
			if err := tx.SendBatch(t.Context(), batch).Close(); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := tx.QueryRow(t.Context(), `SHOW enable_seqscan`).Scan(&got); err != nil || got != own {
				t.Errorf("%v: enable_seqscan is %q, %v; want %s", r, got, err, own)
			}
			b.commit(tx)
		}
	}
}
