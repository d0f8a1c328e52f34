// Package migrations holds the schema and migrates databases to it. The files in sql/ only go up: the next file
// corrects a mistake, and no file is ever reverted.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/sqlstate"
)

//go:embed sql/*.sql
var files embed.FS

// table is where goose records applied migrations. It cannot be in the schema agent, which the first migration creates.
const table = "public.agent_migrations"

// Waits for locks are short: a migration that queues for a busy table would block every statement after it, including
// the settling of deliveries.
const lockTimeout = "5s"

// Two processes may migrate at once. The second polls until the first has finished, every second for five minutes. It
// polls because a session that blocks in pg_advisory_lock holds a snapshot, and CREATE INDEX CONCURRENTLY in the first
// would wait for that snapshot: a deadlock.
const (
	pollSeconds = 1
	pollTimes   = 300
)

// Applied is a migration that Up has applied.
type Applied struct {
	Version int64
	Name    string // the file's name
	Took    time.Duration
}

// State is the state of a migration in a database.
type State struct {
	Version   int64
	Name      string    // the file's name
	AppliedAt time.Time // zero while it is pending
	Newer     bool      // of a later build; this build does not know its file name
}

// ErrMigrate says that a migration failed.
var ErrMigrate = errors.New("migrate")

// Up applies every pending migration, each in its own transaction, and returns those that it applied, in order. If one
// fails, those before it stay applied and are returned with the error. Calls from several processes take turns; the
// later ones find nothing to do.
func Up(ctx context.Context, databaseURL string) ([]Applied, error) {
	db, pool, err := open(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	defer pg.Close(pool)
	p, err := provider(db)
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
		err = fmt.Errorf("%w %s: %w", ErrMigrate, path.Base(partial.Failed.Source.Path), partial.Err)
	} else if err != nil {
		err = fmt.Errorf("%w: %w", ErrMigrate, err)
	}
	applied := make([]Applied, 0, len(results))
	for _, r := range results {
		applied = append(applied, Applied{Version: r.Source.Version, Name: path.Base(r.Source.Path), Took: r.Duration})
	}
	return applied, err
}

const selectApplied = `SELECT version_id, max(tstamp AT TIME ZONE 'UTC')
  FROM ` + table + ` WHERE is_applied GROUP BY version_id`

// Status returns every migration of this build, then those that a later build has applied, in order. It only reads: it
// does not change a database that was never migrated, and waits for no lock.
func Status(ctx context.Context, databaseURL string) ([]State, error) {
	db, pool, err := open(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	defer pg.Close(pool)
	p, err := provider(db)
	if err != nil {
		return nil, err
	}
	at, err := appliedAt(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	var states []State
	for _, s := range p.ListSources() {
		states = append(states, State{Version: s.Version, Name: path.Base(s.Path), AppliedAt: at[s.Version]})
		delete(at, s.Version)
	}
	delete(at, 0) // the table's first row, which goose creates
	for _, version := range slices.Sorted(maps.Keys(at)) {
		states = append(states, State{Version: version, Name: fmt.Sprintf("%d (of a newer build)", version), AppliedAt: at[version], Newer: true})
	}
	return states, nil
}

// Pending returns how many migrations of this build the database lacks. Like Status, it only reads.
func Pending(ctx context.Context, databaseURL string) (int, error) {
	states, err := Status(ctx, databaseURL)
	n := 0
	for _, s := range states {
		if s.AppliedAt.IsZero() {
			n++
		}
	}
	return n, err
}

// Hash identifies the schema of this build: it changes with the name or the content of any migration.
func Hash() string { return hash(files) }

func hash(fsys fs.FS) string {
	h := sha256.New()
	names, _ := fs.Glob(fsys, "sql/*.sql") // the pattern is well-formed, and that is its only error
	for _, name := range names {
		text, _ := fs.ReadFile(fsys, name) // embedded, so it exists
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func open(ctx context.Context, databaseURL string) (*sql.DB, *pgxpool.Pool, error) {
	return pg.OpenDB(ctx, databaseURL, map[string]string{"lock_timeout": lockTimeout, "application_name": "gateway migrate"})
}

func provider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(pollSeconds, pollTimes))
	if err != nil {
		return nil, fmt.Errorf("set up the migration lock: %w", err)
	}
	sub, err := fs.Sub(files, "sql")
	if err != nil {
		return nil, fmt.Errorf("open embedded migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, sub,
		goose.WithSessionLocker(locker),
		goose.WithTableName(table),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return p, nil
}

func appliedAt(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	rows, err := db.QueryContext(ctx, selectApplied)
	if sqlstate.NoTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	at := map[int64]time.Time{}
	for rows.Next() {
		var version int64
		var t time.Time
		if err := rows.Scan(&version, &t); err != nil {
			return nil, err
		}
		at[version] = t
	}
	return at, rows.Err()
}
