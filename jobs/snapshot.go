package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// MaxTried is how many sources of a provider are tried for a job id that is unknown.
const MaxTried = 64

// Snapshot is every source and job at one moment. It never changes, so look-ups are safe for concurrent use. They
// allocate nothing and never wait.
type Snapshot struct {
	began     time.Time // when the read that it comes from began
	sources   map[uuid.UUID]*Source
	named     map[sourceName]*Source
	newest    map[string][]*Source // per provider, newest first, MaxTried at most
	jobs      map[uuid.UUID]*Job   // closed ones too
	tenants   map[tenant]*Job      // a closed one where none is active
	fallbacks map[uuid.UUID]*Job   // by source; a closed one where none is active
}

type sourceName struct{ provider, name string }

type tenant struct {
	source   uuid.UUID
	identity Identity
}

// NewSnapshot returns a Snapshot of the sources and jobs given.
func NewSnapshot(sources []*Source, jobs []*Job) *Snapshot {
	return newSnapshot(time.Now(), &changes{sources: sources, jobs: jobs})
}

// Read reads every source and job once. Secrets that keys do not open are left out and counted in their Keyring; with
// nil keys all are.
func Read(ctx context.Context, pool *pgxpool.Pool, keys *Keys) (*Snapshot, error) {
	r := newReader(pool, keys, slog.New(slog.DiscardHandler))
	began := time.Now()
	c, err := r.query(ctx, reloadTimeout, readEverything)
	if err != nil {
		return nil, fmt.Errorf("read all sources and jobs: %w", err)
	}
	return newSnapshot(began, c), nil
}

func newSnapshot(began time.Time, c *changes) *Snapshot {
	s := &Snapshot{
		began:     began,
		sources:   make(map[uuid.UUID]*Source),
		named:     make(map[sourceName]*Source),
		newest:    make(map[string][]*Source),
		jobs:      make(map[uuid.UUID]*Job, len(c.jobs)),
		tenants:   make(map[tenant]*Job, len(c.jobs)),
		fallbacks: make(map[uuid.UUID]*Job),
	}
	s.apply(c)
	return s
}

// Current returns s itself: a Snapshot stands in for a Directory where one read is enough.
func (s *Snapshot) Current() *Snapshot { return s }

// Refresh returns nil if the snapshot's read began after since. It cannot read again.
func (s *Snapshot) Refresh(_ context.Context, since time.Time) error {
	if s.began.After(since) {
		return nil
	}
	return errNotRefreshed
}

// Job returns the provider's job of that id, closed ones too. It is not found when it is another
// provider's, or when its source was removed.
func (s *Snapshot) Job(provider string, id uuid.UUID) (*Job, bool) {
	job, ok := s.jobs[id]
	if !ok || job.Provider != provider {
		return nil, false
	}
	if !job.OwnSecrets() && s.sources[job.SourceID] == nil {
		return nil, false
	}
	return job, true
}

// Source returns the provider's source of that name, unless it was removed.
func (s *Snapshot) Source(provider, name string) (*Source, bool) {
	source, ok := s.named[sourceName{provider, name}]
	return source, ok
}

// SourceByID returns the source of that id, unless it was removed.
func (s *Snapshot) SourceByID(id uuid.UUID) (*Source, bool) {
	source, ok := s.sources[id]
	return source, ok
}

// Sources returns the provider's sources, newest first, MaxTried at most. The caller only reads the slice.
func (s *Snapshot) Sources(provider string) []*Source {
	return s.newest[provider]
}

// AllSources returns every source of the provider, newest first.
func (s *Snapshot) AllSources(provider string) []*Source {
	var list []*Source
	for _, source := range s.sources {
		if source.Provider == provider {
			list = append(list, source)
		}
	}
	slices.SortFunc(list, func(a, b *Source) int {
		return cmp.Or(b.created.Compare(a.created), slices.Compare(b.ID[:], a.ID[:]))
	})
	return list
}

// ActiveJobs returns every active job of the provider, newest first.
func (s *Snapshot) ActiveJobs(provider string) []*Job {
	var list []*Job
	for id, job := range s.jobs {
		if _, ok := s.Job(provider, id); ok && !job.Closed {
			list = append(list, job)
		}
	}
	slices.SortFunc(list, func(a, b *Job) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return list
}

// JobFor returns the source's job that pins the tenant: a closed one where none is active.
func (s *Snapshot) JobFor(source uuid.UUID, identity Identity) (*Job, bool) {
	job, ok := s.tenants[tenant{source, identity}]
	return job, ok
}

// Fallback returns the source's fallback job: a closed one where none is active.
func (s *Snapshot) Fallback(source uuid.UUID) (*Job, bool) {
	job, ok := s.fallbacks[source]
	return job, ok
}

// with returns the snapshot after the changes. Only what they concern is copied.
func (s *Snapshot) with(began time.Time, c *changes) *Snapshot {
	next := *s
	next.began = began
	if len(c.sourceIDs) > 0 {
		next.sources, next.named, next.newest = maps.Clone(s.sources), maps.Clone(s.named), maps.Clone(s.newest)
	}
	if len(c.jobs) > 0 {
		next.jobs, next.tenants, next.fallbacks = maps.Clone(s.jobs), maps.Clone(s.tenants), maps.Clone(s.fallbacks)
	}
	next.apply(c)
	return &next
}

// apply puts changes into maps that are not shared yet. It first removes all rows of the same ids from every index,
// because a tenant may have moved from one of the jobs to another.
func (s *Snapshot) apply(c *changes) {
	touched := make(map[string]bool)
	for _, id := range c.sourceIDs {
		if old := s.sources[id]; old != nil {
			delete(s.sources, id)
			delete(s.named, sourceName{old.Provider, old.Name})
			touched[old.Provider] = true
		}
	}
	for _, job := range c.jobs {
		s.forget(job.ID)
	}
	for _, source := range c.sources {
		s.sources[source.ID] = source
		s.named[sourceName{source.Provider, source.Name}] = source
		touched[source.Provider] = true
	}
	for _, job := range c.jobs {
		s.jobs[job.ID] = job
		if job.OwnSecrets() {
			continue
		}
		for _, pin := range job.Pins {
			if at := (tenant{job.SourceID, pin}); job.replaces(s.tenants[at]) {
				s.tenants[at] = job
			}
		}
		if job.Fallback && job.replaces(s.fallbacks[job.SourceID]) {
			s.fallbacks[job.SourceID] = job
		}
	}
	for provider := range touched {
		s.sort(provider)
	}
}

func (s *Snapshot) forget(id uuid.UUID) {
	old := s.jobs[id]
	if old == nil {
		return
	}
	delete(s.jobs, id)
	for _, pin := range old.Pins {
		if at := (tenant{old.SourceID, pin}); s.tenants[at] == old {
			delete(s.tenants, at)
		}
	}
	if s.fallbacks[old.SourceID] == old {
		delete(s.fallbacks, old.SourceID)
	}
}

// sort makes a new list of the provider's sources. The old list belongs to older snapshots.
func (s *Snapshot) sort(provider string) {
	list := s.AllSources(provider)
	s.newest[provider] = slices.Clip(list[:min(len(list), MaxTried)])
}
