package jobs

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// MaxTried is how many sources of a provider are tried for a job id that nobody holds.
const MaxTried = 64

// Directory holds every source and job in memory, so that no request costs PostgreSQL a statement. Run
// keeps it fresh: a change is seen within a second while PostgreSQL answers, and what was read last stays
// while it does not. Look-ups allocate nothing, wait for nothing slow and are safe for concurrent use.
type Directory struct {
	pool    *pgxpool.Pool
	keys    *Keys
	log     *slog.Logger
	metrics *directoryMetrics

	mu   sync.RWMutex
	held holdings

	fresh  freshness
	reader reader
}

// holdings is what the directory knows, by each way in which it is asked.
type holdings struct {
	sources   map[uuid.UUID]*Source
	named     map[sourceName]*Source
	newest    map[string][]*Source // per provider, newest first, MaxTried at most; replaced, never written to
	jobs      map[uuid.UUID]*Job   // closed ones too
	tenants   map[tenant]*Job      // a closed one where none is active
	fallbacks map[uuid.UUID]*Job   // by source; a closed one where none is active
}

type sourceName struct{ provider, name string }

type tenant struct {
	source   uuid.UUID
	identity Identity
}

// newHoldings makes room for so many jobs.
func newHoldings(room int) holdings {
	return holdings{
		sources:   make(map[uuid.UUID]*Source),
		named:     make(map[sourceName]*Source),
		newest:    make(map[string][]*Source),
		jobs:      make(map[uuid.UUID]*Job, room),
		tenants:   make(map[tenant]*Job, room),
		fallbacks: make(map[uuid.UUID]*Job),
	}
}

// NewDirectory returns an empty Directory; Run fills it. A nil reg leaves its metrics unregistered.
func NewDirectory(pool *pgxpool.Pool, keys *Keys, log *slog.Logger, reg prometheus.Registerer) *Directory {
	d := &Directory{pool: pool, keys: keys, log: log, held: newHoldings(0)}
	d.fresh.done = make(chan struct{})
	d.fresh.wanted = make(chan struct{}, 1)
	d.fresh.since = time.Now()
	d.reader.seals = make(map[uuid.UUID]seals)
	d.metrics = newDirectoryMetrics(reg, d.fresh.age)
	return d
}

// Job returns the provider's job of that id, closed ones too. It is not found when it is another
// provider's, or when its source was removed.
func (d *Directory) Job(provider string, id uuid.UUID) (*Job, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	job, ok := d.held.jobs[id]
	if !ok || job.Provider != provider {
		return nil, false
	}
	if !job.OwnSecrets() && d.held.sources[job.SourceID] == nil {
		return nil, false
	}
	return job, true
}

// Source returns the provider's source of that name, unless it was removed.
func (d *Directory) Source(provider, name string) (*Source, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	source, ok := d.held.named[sourceName{provider, name}]
	return source, ok
}

// SourceByID returns the source of that id, unless it was removed.
func (d *Directory) SourceByID(id uuid.UUID) (*Source, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	source, ok := d.held.sources[id]
	return source, ok
}

// Sources returns the provider's sources, newest first, MaxTried at most. The caller only reads the slice.
func (d *Directory) Sources(provider string) []*Source {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.held.newest[provider]
}

// JobFor returns the source's job that pins the tenant: a closed one where none is active.
func (d *Directory) JobFor(source uuid.UUID, identity Identity) (*Job, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	job, ok := d.held.tenants[tenant{source, identity}]
	return job, ok
}

// Fallback returns the source's fallback job: a closed one where none is active.
func (d *Directory) Fallback(source uuid.UUID) (*Job, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	job, ok := d.held.fallbacks[source]
	return job, ok
}

// Loaded reports whether everything was read once. It never turns false again.
func (d *Directory) Loaded() bool { return d.fresh.everSucceeded() }

// Age is how old what the directory knows may be: how long ago the newest read that succeeded began. Before
// the first, it is how long the directory has existed.
func (d *Directory) Age() time.Duration { return d.fresh.age() }

// ReadOnly says why the server took no writes when it was read last; empty when it took them.
func (d *Directory) ReadOnly() string {
	d.fresh.mu.Lock()
	defer d.fresh.mu.Unlock()
	return d.fresh.readOnly
}

// apply brings a change in. What was there under the same ids is taken out of every index first, all of
// it: a tenant may have moved from one of the jobs to another.
func (h *holdings) apply(c *changes) {
	touched := make(map[string]bool)
	for _, id := range c.sourceIDs {
		if old := h.sources[id]; old != nil {
			delete(h.sources, id)
			delete(h.named, sourceName{old.Provider, old.Name})
			touched[old.Provider] = true
		}
	}
	for _, job := range c.jobs {
		h.forget(job.ID)
	}
	for _, s := range c.sources {
		h.sources[s.ID] = s
		h.named[sourceName{s.Provider, s.Name}] = s
		touched[s.Provider] = true
	}
	for _, job := range c.jobs {
		h.jobs[job.ID] = job
		if job.OwnSecrets() {
			continue
		}
		for _, pin := range job.Pins {
			if at := (tenant{job.SourceID, pin}); job.replaces(h.tenants[at]) {
				h.tenants[at] = job
			}
		}
		if job.Fallback && job.replaces(h.fallbacks[job.SourceID]) {
			h.fallbacks[job.SourceID] = job
		}
	}
	for provider := range touched {
		h.sort(provider)
	}
}

func (h *holdings) forget(id uuid.UUID) {
	old := h.jobs[id]
	if old == nil {
		return
	}
	delete(h.jobs, id)
	for _, pin := range old.Pins {
		if at := (tenant{old.SourceID, pin}); h.tenants[at] == old {
			delete(h.tenants, at)
		}
	}
	if h.fallbacks[old.SourceID] == old {
		delete(h.fallbacks, old.SourceID)
	}
}

// sort makes the provider's list anew, so that a slice that was handed out stays as it was.
func (h *holdings) sort(provider string) {
	var list []*Source
	for _, s := range h.sources {
		if s.Provider == provider {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *Source) int {
		return cmp.Or(b.created.Compare(a.created), slices.Compare(b.ID[:], a.ID[:]))
	})
	h.newest[provider] = slices.Clip(list[:min(len(list), MaxTried)])
}
