// Package world is the environment of a benchmark run: a private PostgreSQL on a real disk, the measured processes,
// and the measuring ones. It ends everything that it has started; on Linux the kernel does so if it is killed.
package world

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/jobs"
	"webhook-gateway/migrations"
	"webhook-gateway/test/bench/straightforward"
)

// Who sends, and for whom.
const (
	Source      = "bench"
	Path        = "/webhooks/nylas/sources/" + Source
	Application = "3f1d7c52-8f0b-4f27-9a51-5a3b1e0a11ce"
	tenants     = 100 // of each API
)

// Options configure the world.
type Options struct {
	Dir      string            // for PostgreSQL's data and the logs; its data are removed at the end
	Gateway  string            // the gateway's binary
	Settings map[string]string // of PostgreSQL, beside the benchmark's own
	Env      []string          // of the gateways, as KEY=value
}

// World is a PostgreSQL with one or more databases, and the processes that use it.
type World struct {
	Options
	Secret, SecretsKey string
	Grants, Accounts   []string

	server *devdb.Server
	bin    devdb.Binaries
	procs  []*Process
}

// settings returns the settings that a server of this size would have. The report lists them.
func settings() map[string]string {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal"), " kB"), 10, 64) // 0 where that is not known
	return map[string]string{
		"max_connections": "200",
		"shared_buffers":  strconv.FormatInt(max(kib>>12, 256), 10) + "MB", // a quarter of the memory
		// No checkpoint happens during a run, and none has to create log files: each run begins with one.
		"max_wal_size": "4GB", "min_wal_size": "2GB", "checkpoint_timeout": "30min",
	}
}

// New starts the server. Close ends it, and everything that was started since.
func New(ctx context.Context, o Options) (*World, error) {
	w := &World{Options: o, Secret: uuid.NewString(), SecretsKey: base64.StdEncoding.EncodeToString([]byte(uuid.NewString()[:32]))}
	for range tenants {
		w.Grants, w.Accounts = append(w.Grants, uuid.NewString()), append(w.Accounts, uuid.NewString())
	}
	var err error
	if w.bin, err = devdb.Find(ctx); err != nil {
		return nil, err
	}
	all := settings()
	for name, value := range o.Settings {
		all[name] = value
	}
	w.server, err = devdb.Start(ctx, devdb.Options{Dir: filepath.Join(o.Dir, "postgres"), Fsync: true, Settings: all})
	if err != nil {
		return nil, err
	}
	if kind := FileSystem(w.server.Dir()); kind == "tmpfs" {
		return nil, errors.Join(fmt.Errorf("use %s: it is in memory, where a commit costs nothing; name a folder on a disk", w.server.Dir()), w.Close())
	}
	return w, nil
}

// Close ends every process, stops the server and removes its data.
func (w *World) Close() error {
	for _, p := range w.procs {
		p.Stop()
	}
	err := w.server.Close()
	return errors.Join(err, os.RemoveAll(w.server.Dir()))
}

// DataDir returns the folder of PostgreSQL's data.
func (w *World) DataDir() string { return w.server.Dir() }

// Version returns PostgreSQL's version.
func (w *World) Version() string { return w.bin.Version }

// Database is one migrated database with the source and its jobs.
type Database struct {
	URL     string
	Pool    *pgxpool.Pool // a few connections, to check results
	Tenants map[string]straightforward.Tenant
	world   *World
}

// Database makes a database.
func (w *World) Database(ctx context.Context, name string) (*Database, error) {
	url, err := w.server.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := migrations.Up(ctx, url); err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	d := &Database{URL: url, Pool: pool, Tenants: make(map[string]straightforward.Tenant), world: w}
	if _, err := inbox.NewPartitions(pool).Ensure(ctx); err != nil {
		return nil, err
	}
	return d, d.register(ctx)
}

func (d *Database) register(ctx context.Context) error {
	w := d.world
	keys, err := jobs.NewKeys(w.SecretsKey)
	if err != nil {
		return err
	}
	secret, err := jobs.NewSecret(w.Secret)
	if err != nil {
		return err
	}
	store := jobs.NewStore(d.Pool, keys)
	_, err = store.AddSource(ctx, jobs.NewSource{
		Provider: "nylas", Name: Source, Pins: []jobs.Identity{{Name: "application_id", Value: Application}}, Secret: secret,
	})
	if err != nil {
		return err
	}
	for i := range tenants {
		organization := uuid.New()
		for _, pin := range []jobs.Identity{{Name: "grant_id", Value: w.Grants[i]}, {Name: "account_id", Value: w.Accounts[i]}} {
			job, err := store.AddJob(ctx, jobs.NewJob{
				Provider: "nylas", Organization: organization, Source: Source, Pins: []jobs.Identity{pin},
			})
			if err != nil {
				return err
			}
			d.Tenants[pin.Value] = straightforward.Tenant{Job: job.ID, Organization: organization}
		}
	}
	return nil
}

// Reset empties the tables and writes a checkpoint, so that all runs begin alike.
func (d *Database) Reset(ctx context.Context) error {
	_, err := d.Pool.Exec(ctx, `TRUNCATE agent.idempotency_keys, agent.webhook_deliveries, agent.webhook_drops`)
	if err != nil {
		return fmt.Errorf("empty the tables: %w", err)
	}
	return d.Checkpoint(ctx)
}

// Checkpoint writes a checkpoint. Afterwards the first change of each page writes the whole page to the log.
func (d *Database) Checkpoint(ctx context.Context) error {
	_, err := d.Pool.Exec(ctx, `CHECKPOINT`)
	return err
}

// Set changes a setting of the server.
func (d *Database) Set(ctx context.Context, name, value string) error {
	for _, sql := range []string{
		`ALTER SYSTEM SET ` + pgx.Identifier{name}.Sanitize() + ` = '` + value + `'`,
		`SELECT pg_reload_conf()`,
	} {
		if _, err := d.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// Kept counts the rows of the inbox, and the completed keys.
func (d *Database) Kept(ctx context.Context) (rows, claimed int, err error) {
	err = d.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM agent.webhook_deliveries),
		(SELECT count(*) FROM agent.idempotency_keys WHERE status = 'completed')`).Scan(&rows, &claimed)
	return rows, claimed, err
}

// Stored returns what the inbox and the keys take on disk, with their indexes.
func (d *Database) Stored(ctx context.Context) (inbox, keys int64, err error) {
	err = d.Pool.QueryRow(ctx, `SELECT
		(SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint FROM pg_inherits WHERE inhparent = 'agent.webhook_deliveries'::regclass),
		pg_total_relation_size('agent.idempotency_keys')`).Scan(&inbox, &keys)
	return inbox, keys, err
}

// WAL returns the position of the log's end, in bytes.
func (d *Database) WAL(ctx context.Context) (int64, error) {
	var bytes int64
	err := d.Pool.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&bytes)
	return bytes, err
}

// Settings returns the settings of PostgreSQL that affect the figures.
func (d *Database) Settings(ctx context.Context) (map[string]string, error) {
	rows, err := d.Pool.Query(ctx, `SELECT name, current_setting(name) FROM pg_settings
		WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_compression', 'default_toast_compression', 'wal_sync_method')
		   OR source = 'command line' AND name IN ('max_connections', 'shared_buffers', 'max_wal_size', 'min_wal_size', 'checkpoint_timeout')`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Value string }])
	found := make(map[string]string, len(list))
	for _, s := range list {
		found[s.Name] = s.Value
	}
	return found, err
}
