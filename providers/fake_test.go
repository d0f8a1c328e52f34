package providers_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// acme is a vendor with the plainest protocol there can be: X-Acme-Signature is the hex HMAC of the body,
// a body is {"id","type","tenant","app"} or a list of those.
type acme struct{}

func (acme) Name() string      { return "acme" }
func (acme) Headers() []string { return []string{"x-acme-try"} }

func (acme) Prove(h http.Header, _ time.Time) (providers.Proof, error) {
	switch got := h.Get("X-Acme-Signature"); got {
	case "":
		return nil, providers.ErrUnsigned
	case "stale":
		return nil, providers.ErrStale
	default:
		return acmeProof(got), nil
	}
}

type acmeProof string

func (p acmeProof) Verify(secret string, body []byte) bool {
	return hmac.Equal([]byte(acmeSign(secret, body)), []byte(p))
}

func acmeSign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (acme) Parse(_ string, body []byte) ([]providers.Delivery, error) {
	type event struct {
		ID, Type, Tenant, App string
		Others                []string // applications that are named too
	}
	var events []event
	if bytes.HasPrefix(body, []byte("panic")) {
		panic("a fault of ours, with a secret in its text")
	}
	if json.Unmarshal(body, &events) != nil {
		var one event
		if json.Unmarshal(body, &one) != nil {
			return nil, providers.ErrMalformed
		}
		events = []event{one}
	}
	var out []providers.Delivery
	for _, e := range events {
		d := providers.Delivery{VendorID: e.ID, Type: e.Type, Hash: "r1:00"}
		if e.Tenant != "" {
			d.Tenant = jobs.Identity{Name: "tenant", Value: e.Tenant}
			d.Named = append(d.Named, d.Tenant)
		}
		if e.App != "" {
			d.Named = append(d.Named, jobs.Identity{Name: "app", Value: e.App})
		}
		for _, app := range e.Others {
			d.Named = append(d.Named, jobs.Identity{Name: "app", Value: app})
		}
		out = append(out, d)
	}
	return out, nil
}

func (acme) Challenge(q url.Values) (string, bool) { c := q.Get("challenge"); return c, c != "" }

func (acme) Handshake(_ string, body []byte) (string, bool) {
	return "pong", bytes.Equal(body, []byte("ping"))
}

func (acme) MayProbe(contentType string) bool { return contentType == "probe" }
func (acme) Probe(contentType string, body []byte) bool {
	return contentType == "probe" && bytes.Equal(body, []byte("probe=1"))
}

// directory is a Directory that a test fills by hand.
type directory struct {
	mu        sync.Mutex
	jobs      map[uuid.UUID]*jobs.Job
	sources   []*jobs.Source
	refreshes int
	// onRefresh runs within each refresh: what another gateway has changed meanwhile.
	onRefresh func(*directory) error
}

func (d *directory) Current() *jobs.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return jobs.NewSnapshot(d.sources, slices.Collect(maps.Values(d.jobs)))
}

func (d *directory) Refresh(ctx context.Context, _ time.Time) error {
	d.mu.Lock()
	d.refreshes++
	d.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d.onRefresh != nil {
		return d.onRefresh(d)
	}
	return nil
}

func (d *directory) addSource(t *testing.T, name string, pins []jobs.Identity, secrets ...string) *jobs.Source {
	s := &jobs.Source{ID: uuid.New(), Provider: "acme", Name: name, Pins: pins, Keyring: keyring(t, secrets...)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sources = append(d.sources, s)
	return s
}

func (d *directory) addJob(j jobs.Job) *jobs.Job {
	j.ID, j.Organization, j.Provider = uuid.New(), uuid.New(), "acme"
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs[j.ID] = &j
	return &j
}

func keyring(t *testing.T, texts ...string) jobs.Keyring {
	t.Helper()
	var k jobs.Keyring
	for _, text := range texts {
		secret, err := jobs.NewSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		k.Secrets = append(k.Secrets, secret)
	}
	return k
}

// settler is a Settler that keeps everything at once, unless a test says otherwise.
type settler struct {
	mu     sync.Mutex
	work   []*providers.Work
	settle func(*providers.Work, func([]providers.Ending)) error
	full   bool
}

func (s *settler) Full() bool { return s.full }

func (s *settler) Settle(w *providers.Work, done func([]providers.Ending)) error {
	s.mu.Lock()
	s.work = append(s.work, w)
	s.mu.Unlock()
	if s.settle != nil {
		return s.settle(w, done)
	}
	go done(endings(w))
	return nil
}

func endings(w *providers.Work) []providers.Ending {
	out := make([]providers.Ending, len(w.Items))
	for i, item := range w.Items {
		out[i].Dropped = item.Reason
	}
	return out
}

// door is a receiver for acme with everything around it in a test's hands.
type door struct {
	*directory
	settler *settler
	gate    *providers.Gate
	watch   func(net.Listener) net.Listener
	reg     *prometheus.Registry
	handler http.Handler
	logged  *bytes.Buffer
}

func newDoor(t *testing.T, list ...providers.Provider) *door {
	t.Helper()
	return newDoorWithin(t, 128<<10, list...)
}

// newDoorWithin is newDoor with a budget for all bodies.
func newDoorWithin(t *testing.T, budget int64, list ...providers.Provider) *door {
	t.Helper()
	return newDoorOf(t, providers.Limits{Body: 64 << 10, BodyBudget: budget, Read: time.Second, Settle: time.Second}, list...)
}

// newDoorOf is newDoor with its limits.
func newDoorOf(t *testing.T, limits providers.Limits, list ...providers.Provider) *door {
	t.Helper()
	if list == nil {
		list = []providers.Provider{acme{}}
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name()
	}
	d := &door{
		directory: &directory{jobs: make(map[uuid.UUID]*jobs.Job)},
		settler:   &settler{},
		reg:       prometheus.NewPedanticRegistry(),
		logged:    &bytes.Buffer{},
	}
	ledger := drops.NewLedger(names)
	d.reg.MustRegister(ledger)
	log := slog.New(slog.NewJSONHandler(d.logged, nil))
	d.gate = providers.NewGate(list, d.directory, d.settler, ledger, 1<<20)
	receiver := providers.NewReceiver(list, d.gate, limits, providers.Deps{Registerer: d.reg, Log: log})
	e := echo.New()
	receiver.Mount(e)
	d.watch = receiver.Watch
	d.handler = e
	return d
}

// send posts a body signed with the secret; an empty secret leaves it unsigned.
func (d *door) send(path, secret, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, path, io.NopCloser(bytes.NewReader([]byte(body))))
	req.ContentLength = int64(len(body))
	if secret != "" {
		req.Header.Set("X-Acme-Signature", acmeSign(secret, []byte(body)))
	}
	for _, f := range edit {
		f(req)
	}
	return d.do(req)
}

func (d *door) do(req *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	d.handler.ServeHTTP(rec, req)
	return rec
}

// metric reads one series, by its labels' values.
func (d *door) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := d.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.GetMetric() {
			for _, want := range labels {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetValue() == want
				}
				if !found {
					continue series
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no series %s%v", name, labels)
	return 0
}

var errAway = errors.New("PostgreSQL is away")
