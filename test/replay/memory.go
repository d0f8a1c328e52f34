package replay

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Memory is a gateway without a database: the real receiver and gate, over a directory and an inbox in memory. It
// forgets everything with the test. To test what a database decides, use a real gateway.
type Memory struct {
	http.Handler
	places   Places
	holdings holdings
	metrics  *prometheus.Registry

	mu   sync.Mutex
	keys map[string]string // fingerprint by key
	seen Seen
}

// NewMemory returns a gateway with every source and job that the captures need. A secret is the one that a recorded
// capture was signed with, or random.
func NewMemory(t testing.TB, list []*Capture) *Memory {
	t.Helper()
	cast, err := capture.Parties(list)
	if err != nil {
		t.Fatal(err)
	}
	m := &Memory{places: make(Places), keys: make(map[string]string), metrics: prometheus.NewRegistry()}
	for _, s := range cast.Sources {
		m.addSource(t, s)
	}
	for _, j := range cast.Jobs {
		m.addJob(t, j)
	}
	vendors := Vendors()
	names := make([]string, len(vendors))
	for i, v := range vendors {
		names[i] = v.Name()
	}
	ledger := drops.NewLedger(names)
	m.metrics.MustRegister(ledger)
	gate := providers.NewGate(vendors, &m.holdings, m, ledger, 1<<20)
	receiver := providers.NewReceiver(vendors, gate, providers.Limits{
		Body: 4 << 20, BodyBudget: 256 << 20, Read: time.Minute, Settle: time.Minute, // no vendor waits
	}, providers.Deps{Registerer: m.metrics, Log: slog.New(slog.DiscardHandler)})
	e := echo.New()
	receiver.Mount(e)
	m.Handler = e
	return m
}

// Target returns the gateway as a target that watches itself.
func (m *Memory) Target() Target { return Target{Handler: m, Places: m.places, Watch: m} }

// Seen implements Watch.
func (m *Memory) Seen(t testing.TB) Seen {
	t.Helper()
	families, err := m.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen
	s.Outcomes = OutcomesOf(families)
	return s
}

// Full implements providers.Settler.
func (*Memory) Full() bool { return false }

// Settle implements providers.Settler.
func (m *Memory) Settle(work *providers.Work, done func([]providers.Ending)) error {
	m.mu.Lock()
	endings := make([]providers.Ending, len(work.Items))
	for i := range work.Items {
		endings[i].Dropped = m.settle(work.Request, &work.Items[i])
	}
	m.mu.Unlock()
	go done(endings)
	return nil
}

// settle gives one delivery its ending.
func (m *Memory) settle(req *providers.Request, item *providers.Item) drops.Reason {
	reason := item.Reason
	key := item.Job.String() + "/" + item.VendorID
	hash, known := m.keys[key]
	switch {
	case reason != "" || item.VendorID == "":
	case known && hash == item.Hash:
		reason = drops.Duplicate
	case known:
		reason = drops.HashMismatch
	}
	if reason != "" {
		if reason != drops.Duplicate {
			m.seen.Drops++
		}
		return reason
	}
	m.keys[key] = item.Hash
	body := item.Body
	if body == nil {
		body = req.Body
	}
	m.seen.Stored = append(m.seen.Stored, Stored{
		Row:  Row{Type: item.Type, ID: item.VendorID, Order: item.OrderingKey, Hash: item.Hash},
		Body: body,
	})
	return ""
}

func (m *Memory) addSource(t testing.TB, s capture.CastMember) {
	t.Helper()
	source := &jobs.Source{ID: uuid.New(), Provider: s.Provider, Name: s.Name, Pins: identities(s.Pins)}
	text := secretOf(s)
	source.Keyring.Secrets = append(source.Keyring.Secrets, secret(t, text))
	m.holdings.sources = append(m.holdings.sources, source)
	m.places[capture.PlaceKey(s.Provider, "source", s.Name)] = Place{Path: providers.SourcePath(s.Provider, s.Name), Secret: text}
}

func (m *Memory) addJob(t testing.TB, j capture.CastMember) {
	t.Helper()
	job := &jobs.Job{ID: uuid.New(), Organization: uuid.New(), Provider: j.Provider, Pins: identities(j.Pins), Fallback: j.Fallback}
	place := Place{Path: providers.JobPath(j.Provider, job.ID)}
	if j.Source != "" {
		source, _ := m.holdings.Current().Source(j.Provider, j.Source)
		job.SourceID = source.ID
		place.Secret = source.Keyring.Secrets[0].Reveal()
	} else {
		place.Secret = secretOf(j)
		job.Keyring.Secrets = append(job.Keyring.Secrets, secret(t, place.Secret))
	}
	m.holdings.jobs = append(m.holdings.jobs, job)
	m.places[capture.PlaceKey(j.Provider, "job", j.Name)] = place
}

// holdings is a directory that never changes.
type holdings struct {
	sources []*jobs.Source
	jobs    []*jobs.Job
}

func (h *holdings) Current() *jobs.Snapshot { return jobs.NewSnapshot(h.sources, h.jobs) }

func (h *holdings) Refresh(context.Context, time.Time) error { return nil }
