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
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	pollTimeout   = 2 * time.Second
	reloadTimeout = 15 * time.Second
	reloadEvery   = time.Minute
)

// Both tables are read by one statement: one snapshot, so that a job is never read without its source, and one round
// trip. Its first branch returns the snapshot, when the server started, and whether it is a standby and accepts no
// writes.
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

	// The rows that this snapshot sees and the last one ($1) did not. A transaction that was open then comes with its
	// commit, however late, and no row comes twice. Every row was written below the snapshot's xmax, unless it was
	// restored from another server, whose numbers mean nothing here: without that bound such rows would come with every
	// poll.
	sinceLast = `
 WHERE changed >= pg_snapshot_xmin($1::text::pg_snapshot)
   AND changed < pg_snapshot_xmax(pg_current_snapshot())
   AND NOT pg_visible_in_snapshot(changed, $1::text::pg_snapshot)`

	readEverything = readStart + readSources + readJobs
	readChanges    = readStart + readSources + sinceLast + readJobs + sinceLast
)

// reader follows the tables. Only the goroutine that refreshes uses it.
type reader struct {
	pool *pgxpool.Pool
	keys *Keys
	log  *slog.Logger

	at      string    // the last snapshot; empty before the first
	server  time.Time // when its server started
	reload  time.Time // when everything is read again
	seals   map[uuid.UUID]seals
	failing bool
	reset   time.Time // when all connections were closed last
}

func newReader(pool *pgxpool.Pool, keys *Keys, log *slog.Logger) reader {
	return reader{pool: pool, keys: keys, log: log, seals: make(map[uuid.UUID]seals)}
}

// changes is the result of one read.
type changes struct {
	at       string
	server   time.Time
	readOnly string // why the server accepts no writes; empty if it does

	sourceIDs []uuid.UUID // every source in the result, including removed ones
	sources   []*Source
	jobs      []*Job
	seals     map[uuid.UUID]seals
}

// seals counts problems with how a row's secrets are sealed.
type seals struct {
	unopened int // no key opens them, except of a closed job: its calls are dropped anyway
	old      int // not sealed as a new one would be
}

// read brings the directory up to date.
func (d *Directory) read(ctx context.Context, now time.Time) error {
	r := &d.reader
	if r.at != "" && now.Before(r.reload) {
		c, err := d.query(ctx, pollTimeout, readChanges, r.at)
		if err != nil {
			return fmt.Errorf("read changed sources and jobs: %w", err)
		}
		// After a restart, a failover or a restore the transaction numbers may have started again.
		d.notice(c.readOnly, now)
		if c.server.Equal(r.server) && xmin(c.at) >= xmin(r.at) {
			d.take(c, d.Current().with(now, c), false)
			return nil
		}
	}
	// From time to time everything is read, because a row that was deleted by hand leaves no trace. The next time is
	// set first, so that a failing reload does not hide changes.
	r.reload = now.Add(reloadEvery)
	c, err := d.query(ctx, reloadTimeout, readEverything)
	if err != nil {
		return fmt.Errorf("read all sources and jobs: %w", err)
	}
	d.notice(c.readOnly, now)
	d.take(c, newSnapshot(now, c), true)
	return nil
}

// take makes the snapshot after a read the current one.
func (d *Directory) take(c *changes, s *Snapshot, everything bool) {
	r := &d.reader
	r.at, r.server = c.at, c.server
	d.current.Store(s)
	if everything {
		clear(r.seals)
	}
	for id, row := range c.seals {
		if row == (seals{}) {
			delete(r.seals, id)
		} else {
			r.seals[id] = row
		}
	}
	var all seals
	for _, row := range r.seals {
		all.unopened += row.unopened
		all.old += row.old
	}
	d.metrics.sources.Set(float64(len(s.sources)))
	d.metrics.jobs.Set(float64(len(s.jobs)))
	d.metrics.unopened.Set(float64(all.unopened))
	d.metrics.old.Set(float64(all.old))
}

// row is one row of the statements above.
type row struct {
	kind             string
	id, organization uuid.UUID
	provider, name   string
	source           uuid.UUID
	json             []byte
	identity         map[string]string // from json, filled again for each row
	fallback, ended  bool
	secrets          [][]byte
	rotating         float64 // seconds left
	created          time.Time
}

func (r *reader) query(ctx context.Context, limit time.Duration, sql string, args ...any) (*changes, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the directory's read took longer than "+limit.String()))
	defer cancel()
	rows, err := r.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	c := &changes{seals: make(map[uuid.UUID]seals)}
	l := row{identity: make(map[string]string)}
	// As arrays, because pgx would take the text of a uuid.UUID.
	into := []any{&l.kind, (*[16]byte)(&l.id), (*[16]byte)(&l.organization), &l.provider, &l.name, (*[16]byte)(&l.source),
		&l.json, &l.fallback, &l.ended, &l.secrets, &l.rotating, &l.created}
	_, err = pgx.ForEachRow(rows, into, func() error { return r.add(c, &l) })
	if err != nil {
		return nil, err
	}
	if c.at == "" {
		return nil, errors.New("the server did not say which snapshot was read")
	}
	return c, nil
}

func (r *reader) add(c *changes, l *row) error {
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
			r.noteSeals(c, l.id, seals{})
			return nil
		}
		c.sources = append(c.sources, &Source{ID: l.id, Provider: l.provider, Name: l.name, Pins: pinned(l.identity),
			Keyring: r.keyring(c, l), created: l.created})
		return nil
	}
	c.jobs = append(c.jobs, &Job{ID: l.id, Organization: l.organization, Provider: l.provider, SourceID: l.source,
		Pins: pinned(l.identity), Fallback: l.fallback, Closed: l.ended, Keyring: r.keyring(c, l)})
	return nil
}

// keyring opens a row's secrets. One that cannot be opened is logged once, and counted, except of a closed job.
func (r *reader) keyring(c *changes, l *row) Keyring {
	of := holder{kind: VerifierKind(l.kind), id: l.id, provider: l.provider, organization: l.organization}
	var k Keyring
	var s seals
	if r.keys == nil { // the caller needs no secrets
		return Keyring{Unopened: len(l.secrets), CurrentSealed: len(l.secrets) > 0}
	}
	for i, sealed := range l.secrets[:min(len(l.secrets), MaxSecrets)] {
		if !r.keys.newest(sealed) {
			s.old++
		}
		secret, err := r.keys.open(of, sealed)
		if err == nil {
			k.Secrets = append(k.Secrets, secret)
			continue
		}
		k.Unopened++
		k.CurrentSealed = k.CurrentSealed || i == 0
		if k.Unopened == 1 && !l.ended && r.seals[l.id].unopened == 0 {
			id, _ := sealedWith(sealed)
			r.log.Error("secret cannot be opened", slog.String("holder", string(of.kind)), slog.String("id", l.id.String()),
				slog.String("key_id", id.String()), slog.Any("err", err))
		}
	}
	if !l.ended {
		s.unopened = k.Unopened
	}
	r.noteSeals(c, l.id, s)
	if l.rotating > 0 {
		// Counted from now on this machine's monotonic clock, so a difference between its time of day and the
		// database's does not matter.
		k.RotatingUntil = time.Now().Add(time.Duration(l.rotating * float64(time.Second)))
	}
	return k
}

// noteSeals records problems with a row's secrets, if they are new.
func (r *reader) noteSeals(c *changes, id uuid.UUID, s seals) {
	if s != r.seals[id] || s != (seals{}) {
		c.seals[id] = s
	}
}

// xmin reads the lowest transaction that was still open from a snapshot's text, xmin:xmax:open,…
func xmin(snapshot string) uint64 {
	text, _, _ := strings.Cut(snapshot, ":")
	n, _ := strconv.ParseUint(text, 10, 64) // an invalid number is below all others, so everything is read
	return n
}
