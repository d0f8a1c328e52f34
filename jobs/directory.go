package jobs

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Directory holds the current Snapshot in memory, so that no request costs PostgreSQL a statement. Run keeps it fresh:
// a change is seen within a second while PostgreSQL answers. While it does not answer, the last snapshot stays. It is
// safe for concurrent use.
type Directory struct {
	metrics *directoryMetrics
	current atomic.Pointer[Snapshot]
	fresh   freshness
	reader
}

// NewDirectory returns an empty Directory; Run fills it. A nil reg leaves its metrics unregistered.
func NewDirectory(pool *pgxpool.Pool, keys *Keys, log *slog.Logger, reg prometheus.Registerer) *Directory {
	d := &Directory{reader: newReader(pool, keys, log)}
	d.current.Store(NewSnapshot(nil, nil))
	d.fresh.done = make(chan struct{})
	d.fresh.wanted = make(chan struct{}, 1)
	d.fresh.since = time.Now()
	d.metrics = newDirectoryMetrics(reg, d.fresh.age)
	return d
}

// Current returns the newest snapshot. It never waits; before the first read it is empty.
func (d *Directory) Current() *Snapshot { return d.current.Load() }

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
