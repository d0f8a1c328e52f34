package inbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/canonical"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Stopping(m)) }

// world is an inbox with its own database, and what a test sends it.
type world struct {
	t      *testing.T
	pool   *pgxpool.Pool
	box    *inbox.Inbox
	org    uuid.UUID
	job    uuid.UUID
	source uuid.UUID
	reg    *prometheus.Registry
	log    *bytes.Buffer
}

// defaults are options under which everything that waits goes into one transaction.
var defaults = inbox.Options{
	QueueDeliveries: 10_000, QueueBytes: 64 << 20, BatchDeliveries: 1000, BatchBytes: 16 << 20, Committers: 2,
}

func newWorld(t *testing.T, options inbox.Options, edit ...func(*pgxpool.Config)) *world {
	t.Helper()
	return worldOn(t, pgtest.New(t), options, edit...)
}

func worldOn(t *testing.T, url string, options inbox.Options, edit ...func(*pgxpool.Config)) *world {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 16
	plain := config.Copy()
	for _, f := range edit {
		f(config)
	}
	open := func(c *pgxpool.Config) *pgxpool.Pool {
		pool, err := pgxpool.NewWithConfig(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	w := &world{t: t, pool: open(plain), org: uuid.New(), job: uuid.New(), source: uuid.New(), reg: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	pool := open(config)
	partitions := inbox.NewPartitions(pool)
	if _, err := inbox.NewPartitions(w.pool).Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	scopes := make(map[string]idempotency.Scope)
	for _, name := range []string{"slack", "nylas"} {
		if scopes[name], err = idempotency.NewScopeFor("webhook."+name, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	w.box, err = inbox.New(inbox.Deps{
		Pool: pool, Keys: idempotency.MustService(pool, idempotency.Options{}), Partitions: partitions,
		Registerer: w.reg, Scopes: scopes, Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.box.Stop(context.Background()) })
	return w
}

// request carries the items, received now.
func (w *world) request(items ...providers.Item) *providers.Work {
	for i := range items {
		items[i].Position = i
	}
	return &providers.Work{
		Request: &providers.Request{
			ID: uuid.Must(uuid.NewV7()), Seed: providers.NewSeed(), Provider: "slack",
			Target: providers.Target{Source: "main"}, VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: w.source},
			ReceivedAt: time.Now(), ContentType: "application/json",
			Headers: []providers.Header{{Name: "x-slack-retry-num", Value: "1"}}, Body: []byte(`{"whole":"request"}`),
		},
		Items:    items,
		Deadline: time.Now().Add(5 * time.Second),
	}
}

// item is a delivery of the world's job.
func (w *world) item(vendorID, content string) providers.Item {
	return providers.Item{
		Delivery: providers.Delivery{VendorID: vendorID, Type: "message", Hash: canonical.Raw([]byte(content)), OrderingKey: "C1"},
		Job:      w.job, Organization: w.org,
	}
}

// settle sends works at once, and returns how each of their deliveries ended.
func (w *world) settle(works ...*providers.Work) []string {
	w.t.Helper()
	ends := make([][]providers.Ending, len(works))
	var all sync.WaitGroup
	for i, work := range works {
		all.Add(1)
		if err := w.box.Settle(work, func(e []providers.Ending) { ends[i] = e; all.Done() }); err != nil {
			w.t.Fatal(err)
		}
	}
	all.Wait()
	var said []string
	for _, e := range slices.Concat(ends...) {
		said = append(said, say(e))
	}
	return said
}

func say(e providers.Ending) string {
	switch {
	case e.Failed:
		return "failed"
	case e.Dropped != "":
		return string(e.Dropped)
	default:
		return "accepted"
	}
}

func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantRows(deliveries, keys, kept int) {
	w.t.Helper()
	got := fmt.Sprint(
		w.count(`SELECT count(*) FROM agent.webhook_deliveries`),
		w.count(`SELECT count(*) FROM agent.idempotency_keys WHERE status = 'completed'`),
		w.count(`SELECT count(*) FROM agent.webhook_drops`))
	if want := fmt.Sprint(deliveries, keys, kept); got != want {
		w.t.Errorf("deliveries, completed keys, kept drops: %s, want %s", got, want)
	}
	if n := w.count(`SELECT count(*) FROM agent.idempotency_keys WHERE status <> 'completed'`); n != 0 {
		w.t.Errorf("%d keys are not completed", n)
	}
}

func (w *world) wantEndings(got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("endings %v, want %v\n%s", got, want, w.log)
	}
}

const (
	accepted  = "accepted"
	failed    = "failed"
	duplicate = string(drops.Duplicate)
	mismatch  = string(drops.HashMismatch)
	malformed = string(drops.Malformed)
)
