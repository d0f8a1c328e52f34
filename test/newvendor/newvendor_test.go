package newvendor

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/dev"
	"webhook-gateway/internal/doctor"
	"webhook-gateway/internal/export"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/internal/redrive"
	"webhook-gateway/internal/registry"
	"webhook-gateway/internal/replay"
	"webhook-gateway/internal/send"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The line that a vendor needs beside its folder.
func vendors() []providers.Provider { return []providers.Provider{acme{}} }

func byName() map[string]providers.Provider {
	return map[string]providers.Provider{"acme": vendors()[0]}
}

var options = inbox.Options{QueueDeliveries: 100, QueueBytes: 1 << 20, BatchDeliveries: 10, BatchBytes: 1 << 20, Committers: 1}

// world is a gateway on a database, with the samples' source and jobs.
type world struct {
	*testing.T
	pool *pgxpool.Pool
	keys *jobs.Keys
	url  string
	made dev.Registered
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	var err error
	w.pool, err = pg.Open(t.Context(), pgtest.New(t), 3*redrive.Connections)
	w.must(err)
	t.Cleanup(w.pool.Close)
	w.keys, err = jobs.NewKeys(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	w.must(err)
	made, err := dev.Register(t.Context(), w.pool, w.keys, vendors())
	w.must(err)
	w.made = made[0]

	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	plane, err := idempotency.NewService(w.pool, idempotency.Options{})
	w.must(err)
	scopes, err := inbox.Scopes(vendors())
	w.must(err)
	directory := jobs.NewDirectory(w.pool, w.keys, log, metrics)
	w.must(directory.Load(t.Context()))
	go directory.Run(t.Context())
	partitions := inbox.NewPartitions(w.pool)
	_, err = partitions.Ensure(t.Context())
	w.must(err)
	box, err := inbox.New(inbox.Deps{Pool: w.pool, Keys: plane, Partitions: partitions, Registerer: metrics, Scopes: scopes, Log: log}, options)
	w.must(err)
	t.Cleanup(func() { box.Stop(t.Context()) })
	gate := providers.NewGate(vendors(), directory, box, drops.NewLedger([]string{"acme"}), 1<<20)
	e := echo.New()
	providers.NewReceiver(vendors(), gate, providers.Limits{Body: 1 << 20, BodyBudget: 1 << 24, Read: time.Minute, Settle: time.Minute},
		providers.Deps{Registerer: metrics, Log: log}).Mount(e)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// on is the world in a subtest.
func (w world) on(t *testing.T) *world {
	w.T = t
	return &w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) registry() *registry.Registry {
	w.Helper()
	reg, err := registry.Read(w.Context(), w.pool, w.keys)
	w.must(err)
	return reg
}

// send sends a sample as gateway send does.
func (w *world) send(kind string, times int) send.Result {
	w.Helper()
	target, err := w.registry().SourceTarget("acme", dev.Source)
	w.must(err)
	k, err := acme{}.Samples().Find(kind)
	w.must(err)
	r := send.Request{Sample: k.Make(target.Identities), Vendor: vendors()[0], URL: w.url + target.Path, Secret: target.Secret}
	result, err := send.Send(w.Context(), r, times)
	w.must(err)
	w.must(result.Look(w.Context(), w.pool, r))
	w.must(result.Check(r))
	return result
}

func TestThirdVendor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := w.send("notes", 2)
	if len(sent.Stored) != 2 || len(sent.Dropped) != 0 || sent.Stored[0].EventType != "note.added" {
		t.Fatalf("stored %+v, dropped %+v, want two rows of the first request", sent.Stored, sent.Dropped)
	}
	row := sent.Stored[0]
	key, err := idempotency.NewInspector(w.pool).Show(t.Context(), w.made.Organization, "webhook.acme", row.DeliveryKey)
	if w.must(err); key == nil || key.RetainLeft.Round(time.Hour) != 3*24*time.Hour {
		t.Errorf("the key is %+v, want one for 3 days", key)
	}
	c, err := export.New(w.pool, w.registry(), byName(), false).Capture(t.Context(), row.ID)
	w.must(err)

	t.Run("export", func(t *testing.T) {
		text := fmt.Sprint(c.Headers)
		if !strings.HasPrefix(string(c.Content), `[{"id":`) || len(c.Deliveries(acme{})) != 1 || strings.Contains(text, "X-Acme-") {
			t.Errorf("body %s, headers %s; want a batch of one, unsigned", c.Content, text)
		}
	})
	t.Run("replay", func(t *testing.T) { w.on(t).replay(c) })
	t.Run("scrub", func(t *testing.T) {
		kept, err := capture.ScrubAll([]*capture.Capture{c}, byName())
		if err != nil || fmt.Sprint(kept) != "[kind=note.added]" || strings.Contains(string(c.Content), "Greta") {
			t.Errorf("kept %q in %s, %v", kept, c.Content, err)
		}
	})
	t.Run("redrive", func(t *testing.T) { w.on(t).redrive() })
}

// replay replays an exported capture: the gateway has it already.
func (w *world) replay(c *capture.Capture) {
	dir := filepath.Join(w.TempDir(), "captures")
	w.must(capture.WriteAll(dir, []*capture.Capture{c}, byName(), capture.Private))
	cases, err := replay.Load([]string{dir}, 2)
	w.must(err)
	reg := w.registry()
	places, found, err := reg.Find(replay.Captures(cases))
	w.must(err)
	database, err := replay.NewDatabase(w.pool, reg, found, byName())
	w.must(err)
	o := replay.Options{Base: w.url, Places: places, Vendors: byName(), Timeout: time.Minute, Database: database, Plan: capture.Plan{Times: 2, Concurrency: 1}}
	w.must(replay.New(o, cases).Run(w.Context()))
	if got := cases[0]; len(got.Problems) > 0 || got.Outcomes[string(drops.Duplicate)] != 2 {
		w.Errorf("outcomes %s, problems %q; want two duplicates", got.Outcomes, got.Problems)
	}
}

// redrive stores a drop once its shop has a job.
func (w *world) redrive() {
	dropped := w.send("stranger", 1).Dropped
	if len(dropped) != 1 || dropped[0].Reason != drops.UnknownJob {
		w.Fatalf("dropped %+v, want an unknown job", dropped)
	}
	_, err := jobs.NewStore(w.pool, w.keys).AddJob(w.Context(), jobs.NewJob{
		Provider: "acme", Organization: uuid.New(), Source: dev.Source, Pins: []jobs.Identity{{Name: "shop", Value: "shop-2"}},
	})
	w.must(err)
	d, err := redrive.New(redrive.Deps{
		Pool: w.pool, Vendors: vendors(), Directory: w.registry().Snapshot, Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	}, options, 1<<20)
	w.must(err)
	defer d.Stop()
	plan, err := d.PlanIDs(w.Context(), []uuid.UUID{dropped[0].ID})
	w.must(err)
	w.must(d.Drive(w.Context(), plan, "a test", "its job is there now"))
	if got := plan.Steps[0]; got.Outcome != drops.Accepted {
		w.Errorf("outcome %s %s, want accepted", got.Outcome, got.Detail)
	}
}

// message is a signed request as a person would have recorded it.
func message(secret string, at time.Time, body string) *capture.Message {
	m := &capture.Message{Method: http.MethodPost, Target: "/webhooks/acme/sources/main", Headers: []capture.Header{{"Content-Type", "application/json"}}, Body: []byte(body)}
	m.Headers = append(m.Headers, capture.HeadersOf(acme{}.Sign(secret, m.Body, at))...)
	return m
}

func TestThirdVendorDoctor(t *testing.T) {
	t.Parallel()
	const body = `[{"id":"1","kind":"note.added","shop":"shop-1"}]`
	for _, tt := range []struct {
		name, secret string
		age          time.Duration
		cause        doctor.Code // empty: it is accepted
	}{
		{"accepted", "ours", 0, ""},
		{"stale", "ours", time.Hour, doctor.Stale},
		{"test secret", "acme-test-button", 0, doctor.TestSecret},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := message(tt.secret, time.Now().Add(-tt.age), body)
			m.At = time.Now()
			c, err := capture.Import{Origin: capture.Origin{Vendor: vendors()[0], KeepSignature: true}}.Capture(m)
			if err != nil || len(c.Headers) != 3 {
				t.Fatalf("kept %v, %v; want the headers that carry the signature", c.Headers, err)
			}
			d := doctor.Examine(doctor.Case{Capture: c, Vendor: vendors()[0], Secrets: []doctor.Secret{{Name: "current", Text: "ours"}}, MaxBody: 1 << 20})
			if d.Accepted != (tt.cause == "") || !d.Accepted && !d.Has(tt.cause) {
				t.Errorf("%+v, want cause %q", d, tt.cause)
			}
		})
	}
	c, err := capture.Import{Origin: capture.Origin{Vendor: vendors()[0]}}.Capture(message("ours", time.Now(), body))
	if err != nil || len(c.Headers) != 1 || c.Sign.Mode != capture.Resign || c.Job == nil || c.Job.Pins["shop"] != "shop-1" {
		t.Errorf("imported without its signature: %+v, %v", c, err)
	}
}
