package redrive_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/internal/redrive"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a database with a source main, whose only job is that of grant G9.
type world struct {
	t      *testing.T
	pool   *pgxpool.Pool
	store  *jobs.Store
	source uuid.UUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	pool, err := pg.Open(t.Context(), pgtest.New(t), 3*redrive.Connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	keys, err := jobs.NewKeys(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	store := jobs.NewStore(pool, keys)
	source, err := store.AddSource(t.Context(), jobs.NewSource{Provider: "nylas", Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, pool: pool, store: store, source: source.ID}
	w.addJob("grant_id", "G9")
	if _, err := inbox.NewPartitions(pool).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) addJob(pin, value string) {
	w.t.Helper()
	_, err := w.store.AddJob(w.t.Context(), jobs.NewJob{
		Provider: "nylas", Source: "main", Organization: uuid.New(), Pins: []jobs.Identity{{Name: pin, Value: value}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// keep stores a drop of a message of the grant, with a change.
func (w *world) keep(grant string, change ...func(*drops.Kept)) uuid.UUID {
	w.t.Helper()
	id := uuid.Must(uuid.NewV7())
	kept := drops.Kept{
		ID: id, Reason: drops.UnknownJob, Provider: "nylas", VerifiedBy: "source", VerifierID: w.source, PathSource: "main",
		RequestID: uuid.Must(uuid.NewV7()), RequestSeed: providers.NewSeed(), Headers: "[]", ContentType: "application/json", Count: 1,
		Body:       fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"type":"message.created","data":{"object":{"id":"m1","grant_id":%q}}}`, id, grant),
		ReceivedAt: time.Now(),
	}
	for _, f := range change {
		f(&kept)
	}
	batch := &pgx.Batch{}
	drops.Queue(batch, []drops.Kept{kept})
	if err := w.pool.SendBatch(w.t.Context(), batch).Close(); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// driver knows the jobs as they are now.
func (w *world) driver(reg prometheus.Registerer) *redrive.Driver {
	w.t.Helper()
	snapshot, err := jobs.Read(w.t.Context(), w.pool, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := redrive.New(redrive.Deps{
		Pool: w.pool, Vendors: []providers.Provider{nylas.New()}, Directory: snapshot, Registerer: reg, Log: slog.New(slog.DiscardHandler),
	}, inbox.Options{QueueDeliveries: 1000, QueueBytes: 16 << 20, BatchDeliveries: 100, BatchBytes: 16 << 20}, 16<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(d.Stop)
	return d
}

func (w *world) plan(d *redrive.Driver) *redrive.Plan {
	w.t.Helper()
	plan, err := d.PlanFilter(w.t.Context(), drops.Filter{Limit: 10})
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

func TestDriveCountsAsRecovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep("G9")
	w.keep("G8")
	reg := prometheus.NewPedanticRegistry()
	d := w.driver(reg)
	if err := d.Drive(t.Context(), w.plan(d), "sam", "late"); err != nil {
		t.Fatal(err)
	}
	got := gathered(t, reg)
	for series, want := range map[string]float64{
		`gateway_deliveries_received_total{provider="nylas"}`:                     0,
		`gateway_deliveries_recovered_total{provider="nylas"}`:                    2,
		`gateway_deliveries_accepted_total{provider="nylas"}`:                     1,
		`gateway_deliveries_dropped_total{provider="nylas",reason="unknown_job"}`: 1,
		`gateway_deliveries_waiting{provider="nylas"}`:                            0,
	} {
		if got[series] != want {
			t.Errorf("%s %v, want %v", series, got[series], want)
		}
	}
}

// gathered reads every counter and gauge of a registry.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			values[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

func TestDriveStopsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep("G9")
	d := w.driver(prometheus.NewRegistry())
	plan := w.plan(d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Drive(ctx, plan, "sam", "late"); !errors.Is(err, context.Canceled) || len(plan.Counts()) != 0 {
		t.Errorf("%v, %v; want nothing driven", err, plan.Counts())
	}
}

func TestPlanIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept, missing, d := w.keep("G9"), uuid.New(), w.driver(prometheus.NewRegistry())
	plan, err := d.PlanIDs(t.Context(), []uuid.UUID{missing, kept})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DryRun(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	none, one := plan.Steps[0], plan.Steps[1]
	if none.Drop.ID != missing || !none.Refused || !strings.Contains(none.Detail, "no such drop") || none.Outcome != "" {
		t.Errorf("a missing drop: %+v, want it refused", none)
	}
	if one.Drop.ID != kept || one.Outcome != drops.Accepted || one.Job == uuid.Nil || one.Drop.Body != nil {
		t.Errorf("a kept drop: %+v, want it accepted", one)
	}
}

func TestPlanFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.keep("G9"), w.keep("G9")
	mismatch := w.keep("G9", func(k *drops.Kept) { k.Reason = drops.HashMismatch })
	other := w.keep("G9", func(k *drops.Kept) { k.Provider = "other" })
	d := w.driver(prometheus.NewRegistry())
	for limit, want := range map[int]struct {
		ids  []uuid.UUID
		more bool
	}{
		1: {[]uuid.UUID{second, mismatch, other}, true},
		2: {[]uuid.UUID{first, second, mismatch, other}, false},
	} {
		plan, err := d.PlanFilter(t.Context(), drops.Filter{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		var ids []uuid.UUID
		for _, s := range plan.Steps {
			ids = append(ids, s.Drop.ID)
		}
		if !slices.Equal(ids, want.ids) || plan.More != want.more || plan.Counts()["refused"] != 2 {
			t.Errorf("limit %d: %v, more: %v, %v; want %v, the two last refused", limit, ids, plan.More, plan.Counts(), want)
		}
	}
}

// A request that could not be read when it came may be several deliveries now.
func TestDriveSeveralDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delta := func(account, id string) string {
		return fmt.Sprintf(`{"date":1,"type":"message.created","object_data":{"id":%q,"account_id":%q,"object":"message"}}`, id, account)
	}
	batch := func(k *drops.Kept) {
		k.Reason, k.Body = drops.Malformed, []byte(`{"deltas":[`+delta("A1", "1")+`,`+delta("A2", "2")+`,`+delta("A3", "3")+`]}`)
	}
	w.addJob("account_id", "A2")
	whole := w.keep("", batch)
	gone := w.keep("", batch, func(k *drops.Kept) { k.RequestHash, k.Position = "c1:0", 3 })
	d := w.driver(prometheus.NewRegistry())
	plan, err := d.PlanIDs(t.Context(), []uuid.UUID{whole, gone})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Drive(t.Context(), plan, "sam", "late"); err != nil {
		t.Fatal(err)
	}
	s := plan.Steps[0]
	if s.Outcome != drops.Accepted || s.Detail != "3 deliveries: 2 unknown_job, 1 accepted" || s.Delivery != uuid.Nil || s.Job != uuid.Nil {
		t.Errorf("three deliveries: %+v", s)
	}
	if s := plan.Steps[1]; !s.Refused || s.Detail != "its request is now read as 3 deliveries, and this was number 4" {
		t.Errorf("a delivery that is not read any more: %+v", s)
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep("G9")
	drivers, plans := make([]*redrive.Driver, 3), make([]*redrive.Plan, 3)
	for i := range plans {
		drivers[i] = w.driver(prometheus.NewRegistry())
		plans[i] = w.plan(drivers[i])
	}
	var all sync.WaitGroup
	for i, d := range drivers {
		all.Go(func() {
			if err := d.Drive(t.Context(), plans[i], "sam", "late"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var outcomes []string
	for _, p := range plans {
		outcomes = append(outcomes, string(p.Steps[0].Outcome))
	}
	if slices.Sort(outcomes); !slices.Equal(outcomes, []string{"accepted", "duplicate", "duplicate"}) {
		t.Errorf("%v, want one accepted", outcomes)
	}
	redrives, err := drops.NewStore(w.pool).Redrives(t.Context(), []uuid.UUID{plans[0].Steps[0].Drop.ID})
	if err != nil {
		t.Fatal(err)
	}
	stored := make(map[uuid.UUID]int)
	for _, list := range redrives {
		for _, r := range list {
			if (r.Outcome == drops.Accepted) != (r.Delivery != uuid.Nil) {
				t.Errorf("%s, as delivery %s", r.Outcome, r.Delivery)
			}
			stored[r.Delivery]++
		}
	}
	if len(stored) != 2 || stored[uuid.Nil] != 2 {
		t.Errorf("three redrives wrote down %v, want one delivery", stored)
	}
}
