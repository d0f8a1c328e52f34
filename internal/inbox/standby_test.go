package inbox_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
)

// replicated is an inbox on a primary that waits for a synchronous standby.
type replicated struct {
	*world
	primary, standby *pgtest.Server
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	primary := pgtest.NewServer(t, pgtest.Options{})
	standby := pgtest.NewStandby(t, primary)
	if err := primary.Set(t.Context(), "synchronous_standby_names", "*"); err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, primary.URL(pgtest.Database), defaults, func(c *pgxpool.Config) {
		idempotency.WatchCommits(c.ConnConfig)
		c.ConnConfig.RuntimeParams["client_min_messages"] = "error" // as a role may have it: it hides warnings
	})
	w.await(`SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'`)
	return &replicated{w, primary, standby}
}

// stopStandby takes the standby away, and cancels every wait for it until startStandby: PostgreSQL then answers
// the COMMIT like any other, and shows its rows.
func (r *replicated) stopStandby() (startStandby func()) {
	r.t.Helper()
	if err := r.standby.Stop(); err != nil {
		r.t.Fatal(err)
	}
	r.await(`SELECT count(*) = 0 FROM pg_stat_replication`)
	stop := r.primary.CancelWaits()
	return func() {
		r.t.Helper()
		stop()
		if err := r.standby.Start(context.Background()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Only what the standby has counts: a failover loses the rest.
func TestEndingWaitsForStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.wantEndings(r.settle(r.request(r.item("0", "a"))), accepted)
	start := r.stopStandby()

	first, drop := r.request(r.item("1", "a")), r.request(providers.Item{Reason: drops.UnknownJob})
	for _, tt := range []struct {
		name string
		work *providers.Work
	}{
		{"a delivery", first},
		{"the same again, its own token on the row", first},
		{"the vendor's repeat", r.request(r.item("1", "a"))},
		{"the vendor's repeat with other content", r.request(r.item("1", "b"))},
		{"a drop", drop},
		{"the same drop again", drop},
	} {
		tt.work.Deadline = time.Now().Add(300 * time.Millisecond)
		if got := r.settle(tt.work); !slices.Equal(got, []string{failed}) {
			t.Errorf("%s: %v before the standby has it", tt.name, got)
		}
	}
	if n := r.count(`SELECT count(*) FROM agent.webhook_deliveries`); n != 2 {
		t.Errorf("%d deliveries are visible, want 2: nothing was to be learnt", n)
	}

	start()
	first.Deadline, drop.Deadline = time.Now().Add(30*time.Second), time.Now().Add(30*time.Second)
	r.wantEndings(r.settle(first, drop), accepted, "unknown_job")
	r.wantEndings(r.settle(r.request(r.item("1", "a"))), duplicate)
	r.wantRows(2, 2, 1)
}

// The same for a delivery that the plane's full form decides: it takes over a lease that has passed.
func TestTakeOverWaitsForStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		r.claim(tx, "1", "processing", "-1 s", "1 day")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	holder, err := r.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(ctx, `SELECT FROM agent.idempotency_keys FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	work := r.request(r.item("1", "a"))
	work.Deadline = time.Now().Add(2 * time.Second)
	ended := r.begin(work)
	r.await(`SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	start := r.stopStandby()
	if err := holder.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	r.wantEndings(<-ended, failed)
	r.wantRows(1, 1, 0) // visible, and not said
	start()
	work.Deadline = time.Now().Add(30 * time.Second)
	r.wantEndings(r.settle(work), accepted)
}
