package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	pollTimeout   = 2 * time.Second
	reloadTimeout = 15 * time.Second
	reloadEvery   = time.Minute
)

// Both tables are read by one statement: one snapshot, so that a job is never seen without its source,
// and one round trip. Its first branch says which snapshot that was, when the server started, and whether it is
// a standby and takes no writes.
const (
	readStart = `
SELECT 'at', '00000000-0000-0000-0000-000000000000'::uuid, '00000000-0000-0000-0000-000000000000'::uuid, '',
       pg_current_snapshot()::text, '00000000-0000-0000-0000-000000000000'::uuid, '{}'::jsonb, pg_is_in_recovery(),
       current_setting('transaction_read_only') = 'on', '{}'::bytea[], 0::float8, pg_postmaster_start_time()`
	readSources = `
UNION ALL
SELECT 'source', id, '00000000-0000-0000-0000-000000000000', provider,
       name, '00000000-0000-0000-0000-000000000000', identity, false, removed_at IS NOT NULL,
       secrets, coalesce(extract(epoch FROM rotating_until - clock_timestamp())::float8, 0), created_at
  FROM agent.provider_sources`
	readJobs = `
UNION ALL
SELECT 'job', id, organization_id, provider,
       '', coalesce(source_id, '00000000-0000-0000-0000-000000000000'), identity, fallback, closed_at IS NOT NULL,
       secrets, coalesce(extract(epoch FROM rotating_until - clock_timestamp())::float8, 0), created_at
  FROM agent.provider_jobs`

	// What this snapshot sees and the last one ($1) did not. A transaction that was open then comes with
	// its commit, however late, and no row comes twice. Every row that is seen was written below the
	// snapshot's xmax, unless it was restored from another server, whose numbers mean nothing here:
	// without that bound such rows would come with every poll.
	sinceLast = `
 WHERE changed >= pg_snapshot_xmin($1::text::pg_snapshot)
   AND changed < pg_snapshot_xmax(pg_current_snapshot())
   AND NOT pg_visible_in_snapshot(changed, $1::text::pg_snapshot)`

	readEverything = readStart + readSources + readJobs
	readChanges    = readStart + readSources + sinceLast + readJobs + sinceLast
)

// reader follows the tables. It belongs to the one goroutine that refreshes.
type reader struct {
	at       string    // the snapshot that was read last; empty before the first
	server   time.Time // when the server that it came from started
	reload   time.Time // when everything is read again
	unopened map[uuid.UUID]int
	failing  bool
	reset    time.Time // when all connections were given up last
}

// changes is what one read brought.
type changes struct {
	at       string
	server   time.Time
	readOnly string // why the server takes no writes; empty when it does

	sourceIDs []uuid.UUID // every source that came, removed ones too
	sources   []*Source
	jobs      []*Job
	unopened  map[uuid.UUID]int
}

// read brings the directory up to date.
func (d *Directory) read(ctx context.Context, now time.Time) error {
	r := &d.reader
	if r.at != "" && now.Before(r.reload) {
		c, err := d.query(ctx, pollTimeout, readChanges, r.at)
		if err != nil {
			return fmt.Errorf("read changed sources and jobs: %w", err)
		}
		// After a restart, a failover or a restore the numbers of transactions may have begun anew.
		d.notice(c.readOnly, now)
		if c.server.Equal(r.server) && xmin(c.at) >= xmin(r.at) {
			d.take(c, false)
			return nil
		}
	}
	// Now and then everything is read, because a row that was deleted by hand leaves no trace. Its time
	// is set before, so that a reload that fails does not keep changes from being seen.
	r.reload = now.Add(reloadEvery)
	c, err := d.query(ctx, reloadTimeout, readEverything)
	if err != nil {
		return fmt.Errorf("read all sources and jobs: %w", err)
	}
	d.notice(c.readOnly, now)
	d.take(c, true)
	return nil
}

// take makes what was read visible to look-ups.
func (d *Directory) take(c *changes, everything bool) {
	r := &d.reader
	r.at, r.server = c.at, c.server
	if everything {
		held := newHoldings(len(c.jobs))
		held.apply(c)
		d.mu.Lock()
		d.held = held
		d.mu.Unlock()
	} else if len(c.sourceIDs)+len(c.jobs) > 0 {
		d.mu.Lock()
		d.held.apply(c)
		d.mu.Unlock()
	}
	if everything {
		clear(r.unopened)
	}
	for id, n := range c.unopened {
		if n == 0 {
			delete(r.unopened, id)
		} else {
			r.unopened[id] = n
		}
	}
	sealed := 0
	for _, n := range r.unopened {
		sealed += n
	}
	d.metrics.sources.Set(float64(len(d.held.sources)))
	d.metrics.jobs.Set(float64(len(d.held.jobs)))
	d.metrics.unopened.Set(float64(sealed))
}

// row is one line of the statements above.
type row struct {
	kind             string
	id, organization uuid.UUID
	provider, name   string
	source           uuid.UUID
	json             []byte
	identity         map[string]string // of json, filled anew for each row
	fallback, ended  bool
	secrets          [][]byte
	rotating         float64 // seconds left
	created          time.Time
}

func (d *Directory) query(ctx context.Context, limit time.Duration, sql string, args ...any) (*changes, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the directory's read took longer than "+limit.String()))
	defer cancel()
	rows, err := d.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	c := &changes{unopened: make(map[uuid.UUID]int)}
	l := row{identity: make(map[string]string)}
	// As arrays, because pgx would take the text of a uuid.UUID.
	into := []any{&l.kind, (*[16]byte)(&l.id), (*[16]byte)(&l.organization), &l.provider, &l.name, (*[16]byte)(&l.source),
		&l.json, &l.fallback, &l.ended, &l.secrets, &l.rotating, &l.created}
	_, err = pgx.ForEachRow(rows, into, func() error { return d.add(c, &l) })
	if err != nil {
		return nil, err
	}
	if c.at == "" {
		return nil, errors.New("the server did not say which snapshot was read")
	}
	return c, nil
}

func (d *Directory) add(c *changes, l *row) error {
	if l.kind == "at" {
		c.at, c.server = l.name, l.created
		switch {
		case l.fallback:
			c.readOnly = "it is a standby"
		case l.ended:
			c.readOnly = "default_transaction_read_only is on"
		}
		return nil
	}
	clear(l.identity)
	if err := json.Unmarshal(l.json, &l.identity); err != nil {
		return fmt.Errorf("read the identity of %s %s: %w", l.kind, l.id, err)
	}
	if l.kind == string(BySource) {
		c.sourceIDs = append(c.sourceIDs, l.id)
		if l.ended {
			d.unopened(c, l.id, 0)
			return nil
		}
		c.sources = append(c.sources, &Source{ID: l.id, Provider: l.provider, Name: l.name, Pins: pinned(l.identity),
			Keyring: d.keyring(c, l), created: l.created})
		return nil
	}
	c.jobs = append(c.jobs, &Job{ID: l.id, Organization: l.organization, Provider: l.provider, SourceID: l.source,
		Pins: pinned(l.identity), Fallback: l.fallback, Closed: l.ended, Keyring: d.keyring(c, l)})
	return nil
}

// keyring opens a row's secrets. One that cannot be opened is logged once, and counted, but of a closed job.
func (d *Directory) keyring(c *changes, l *row) Keyring {
	kind, table := VerifierKind(l.kind), tableOf(VerifierKind(l.kind)).name
	var k Keyring
	for i, sealed := range l.secrets[:min(len(l.secrets), MaxSecrets)] {
		secret, err := d.keys.open(table, l.id, sealed)
		if err == nil {
			k.Secrets = append(k.Secrets, secret)
			continue
		}
		k.Unopened++
		k.CurrentSealed = k.CurrentSealed || i == 0
		if k.Unopened == 1 && !l.ended && d.reader.unopened[l.id] == 0 {
			id, _ := sealedWith(sealed)
			d.log.Error("secret cannot be opened", slog.String("holder", string(kind)), slog.String("id", l.id.String()),
				slog.String("key_id", id.String()), slog.Any("err", err))
		}
	}
	if l.ended { // its calls are dropped anyway
		d.unopened(c, l.id, 0)
	} else {
		d.unopened(c, l.id, k.Unopened)
	}
	if l.rotating > 0 {
		// Counted from here by this machine's monotonic clock: how its time of day differs from the
		// database's does not matter.
		k.RotatingUntil = time.Now().Add(time.Duration(l.rotating * float64(time.Second)))
	}
	return k
}

// unopened notes how many secrets of a row could not be opened, if that is any news.
func (d *Directory) unopened(c *changes, id uuid.UUID, n int) {
	if n > 0 || d.reader.unopened[id] > 0 {
		c.unopened[id] = n
	}
}

// xmin reads the lowest transaction that was still open from a snapshot's text, xmin:xmax:open,…
func xmin(snapshot string) uint64 {
	text, _, _ := strings.Cut(snapshot, ":")
	n, _ := strconv.ParseUint(text, 10, 64) // what is no number is lower than all, and has everything read
	return n
}
