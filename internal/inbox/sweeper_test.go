package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"webhook-gateway/drops"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
)

func newSweeper(t *testing.T, pool *pgxpool.Pool, reg prometheus.Registerer) *inbox.Sweeper {
	t.Helper()
	retention := inbox.Retention{Inbox: 48 * time.Hour, Drops: time.Hour}
	s, err := inbox.NewSweeper(pool, retention, reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSweepRemovesOnlyExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	for i := range 10 {
		w.settle(w.request(w.item(fmt.Sprint(i), "a"), providers.Item{Reason: drops.UnknownJob}))
	}
	w.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = now() - interval '2 s', retain_until = now() - interval '1 s'
	         WHERE right(key, 1) < '4'`)
	w.exec(`UPDATE agent.webhook_drops SET stored_at = now() - interval '61 min' WHERE id IN (SELECT id FROM agent.webhook_drops LIMIT 3)`)
	w.exec(`INSERT INTO agent.webhook_redrives (drop_id, redriven_at, redriven_by, why)
	        SELECT gen_random_uuid(), now() - n * interval '61 min', 'sam', 'why' FROM generate_series(0, 1) AS n`)
	w.makeDay(2) // ended less than 48 h ago
	w.makeDay(3)
	w.makeDay(9)

	reg := prometheus.NewPedanticRegistry()
	s := newSweeper(t, w.pool, reg)
	got, err := s.Sweep(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := []inbox.Swept{{"idempotency_keys", 4, 0}, {"webhook_drops", 3, 0}, {"webhook_deliveries", 2, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	w.wantRows(10, 6, 7)
	if n := w.count(`SELECT count(*) FROM agent.webhook_redrives`); n != 1 {
		t.Errorf("%d redrives are left, want the newer one", n)
	}
	if n := w.days(); n != 10 { // yesterday, today, a week ahead, and the one kept
		t.Errorf("%d days are left, want 10", n)
	}
	if n, err := testutil.GatherAndCount(reg, "gateway_sweep_rows_total", "gateway_sweep_backlog_rows"); n != 6 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
	if problems, err := testutil.GatherAndLint(reg); len(problems) > 0 || err != nil {
		t.Error(problems, err)
	}
}

// makeDay adds the partition of a day that lies in the past.
func (w *world) makeDay(ago int) {
	w.exec(fmt.Sprintf(`DO $$ DECLARE day date := (now() AT TIME ZONE 'UTC')::date - %d; BEGIN
		EXECUTE format('CREATE TABLE agent.webhook_deliveries_%%s PARTITION OF agent.webhook_deliveries FOR VALUES FROM (%%L) TO (%%L)',
		               to_char(day, 'YYYYMMDD'), day || ' 00:00:00+00', day + 1 || ' 00:00:00+00'); END $$`, ago))
}

func (w *world) days() int {
	return w.count(`SELECT count(*) FROM pg_inherits WHERE inhparent = 'agent.webhook_deliveries'::regclass`)
}

func TestSweepSkipsDayInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.makeDay(9)
	ctx := context.Background()
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM agent.webhook_deliveries`); err != nil {
		t.Fatal(err)
	}
	s := newSweeper(t, w.pool, nil)
	got, err := s.Sweep(ctx)
	if err != nil || got[2] != (inbox.Swept{Table: "webhook_deliveries", Backlog: 1}) {
		t.Errorf("beside a reader: %v, %v", got, err)
	}
	w.wantEndings(w.settle(w.request(w.item("1", "a"))), accepted)
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sweep(ctx); err != nil || got[2].Removed != 1 {
		t.Errorf("after the reader: %v, %v", got, err)
	}
}

func TestSweepPartitionedUntil(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	reg := prometheus.NewPedanticRegistry()
	s := newSweeper(t, w.pool, reg)
	today := w.count(`SELECT extract(epoch FROM date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')::bigint`)
	until := func() int { return int(gauge(t, reg, "gateway_inbox_partitioned_until_timestamp_seconds", "")) }
	if got := until(); got != 0 {
		t.Errorf("before any sweep the days end at %d, want 0", got)
	}
	sweep := func() {
		t.Helper()
		if _, err := s.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if got := until() - today; got != 8*86400 {
		t.Errorf("the days end %d s after today began, want a week and today", got)
	}
	// A day that is missing ends them, whatever lies behind it. The lock of another gateway keeps this one
	// from making it again.
	tx, err := w.pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), `SELECT pg_advisory_xact_lock($1)`, 0x6a7765_01); err != nil {
		t.Fatal(err)
	}
	w.exec(`DO $$ BEGIN EXECUTE 'DROP TABLE agent.webhook_deliveries_' || to_char((now() AT TIME ZONE 'UTC') + interval '2 days', 'YYYYMMDD'); END $$`)
	sweep()
	if got := until() - today; got != 2*86400 {
		t.Errorf("without the day after tomorrow the days end %d s after today began, want 2 days", got)
	}
	if err := tx.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	sweep()
	if got := until() - today; got != 8*86400 {
		t.Errorf("once it is made again they end %d s after today began, want 8 days", got)
	}
}

func TestFailedSweepMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.makeDay(9)
	ctx := context.Background()
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM agent.webhook_deliveries`); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	s := newSweeper(t, w.pool, reg)
	began := float64(time.Now().UnixMilli()) / 1000
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	const backlog, success = "gateway_sweep_backlog_rows", "gateway_sweep_last_success_timestamp_seconds"
	first := gauge(t, reg, success, "webhook_deliveries")
	if gauge(t, reg, backlog, "webhook_deliveries") != 1 || first < began {
		t.Errorf("after a sweep beside a reader: backlog %v, success at %v; want 1, after %v",
			gauge(t, reg, backlog, "webhook_deliveries"), first, began)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	w.exec(`ALTER TABLE agent.webhook_deliveries RENAME TO elsewhere`)
	if _, err := s.Sweep(ctx); err == nil {
		t.Error("a sweep without its table had no error")
	}
	if got := gauge(t, reg, backlog, "webhook_deliveries"); got != 1 {
		t.Errorf("the backlog is %v after a sweep that could not look, want 1 still", got)
	}
	if got := gauge(t, reg, success, "webhook_deliveries"); got != first {
		t.Errorf("success at %v after a sweep that failed, want %v still", got, first)
	}
	if got := gauge(t, reg, success, "webhook_drops"); got < first {
		t.Errorf("the drops were swept at %v, want after %v: they were not in the way", got, first)
	}
}

// gauge reads one series; table is its only label, empty when it has none.
func gauge(t *testing.T, reg *prometheus.Registry, name, table string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (table == "" || m.GetLabel()[0].GetValue() == table) {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no series %s of %s", name, table)
	return 0
}

func TestDaysCreatedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	var made int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			n, err := inbox.NewPartitions(pool).Ensure(context.Background())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			made += n
			mu.Unlock()
		})
	}
	all.Wait()
	// Those that met another at work made nothing; one more look makes what is left.
	n, err := inbox.NewPartitions(pool).Ensure(context.Background())
	if made += n; made != 9 || err != nil {
		t.Errorf("%d days made, %v, want 9", made, err)
	}
}

func TestSweepersRunBesideIngest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 2 {
		s := newSweeper(t, w.pool, nil)
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Sweep(ctx); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range 20 {
		var works []*providers.Work
		for i := range 50 {
			works = append(works, w.request(w.item(fmt.Sprintf("%d-%d", round, i), "a")))
		}
		for _, end := range w.settle(works...) {
			if end != accepted {
				t.Fatalf("ended as %s beside a sweep", end)
			}
		}
		w.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = now() - interval '2 s', retain_until = now() - interval '1 s'`)
	}
	stop()
	running.Wait()
	if n := w.count(`SELECT count(*) FROM agent.webhook_deliveries`); n != 1000 {
		t.Errorf("%d inbox rows, want 1000", n)
	}
}
