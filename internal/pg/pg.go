// Package pg is how the gateway talks to PostgreSQL. Every connection of every command is opened here: the
// session's settings that the SQL rests on are set once it is connected, whatever the role, the database or
// the connection string say, and a pooler that cannot keep them is refused by name.
package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"webhook-gateway/internal/dsn"
)

// ErrSettings: the connection string cannot be used as it is. Waiting does not help.
var ErrSettings = errors.New("DATABASE_URL")

// ErrUnfit: something answers at DATABASE_URL, but it must not be used.
var ErrUnfit = errors.New("PostgreSQL at DATABASE_URL cannot be used")

// connectTimeout is how long one connection may take to be made, unless the connection string has a
// connect_timeout. Without it a server that is gone without a word holds one of the pool's places for ever.
const connectTimeout = 5 * time.Second

// Open returns a pool on the connection string, with room for at least so many connections. It connects to
// nothing yet. The watches are put on each connection before it is made. The error wraps ErrSettings and never
// quotes the connection string: it holds a password.
func Open(ctx context.Context, url string, connections int32, watches ...func(*pgx.ConnConfig)) (*pgxpool.Pool, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = max(config.MaxConns, connections)
	for _, watch := range watches {
		watch(config.ConnConfig)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// OpenDB is Open for database/sql, as package migrations needs it. The settings are set on top of the pins.
// The caller closes the pool; the DB needs no closing.
func OpenDB(ctx context.Context, url string, settings map[string]string) (*sql.DB, *pgxpool.Pool, error) {
	config, err := parse(url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = max(config.MaxConns, 2) // the lock takes one
	pin := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := pin(ctx, conn); err != nil {
			return err
		}
		for name, value := range settings {
			if _, err := conn.Exec(ctx, `SELECT pg_catalog.set_config($1, $2, false)`, name, value); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	return stdlib.OpenDBFromPool(pool), pool, nil
}

// Check returns what is wrong with a connection string as far as it can be told without connecting. The error wraps
// ErrSettings.
func Check(url string) error {
	_, err := parse(url)
	return err
}

func parse(url string) (*pgxpool.Config, error) {
	if err := dsn.Check(url); err != nil {
		return nil, fmt.Errorf("%w %w", ErrSettings, err)
	}
	if err := checkFiles(url); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return nil, fmt.Errorf("%w names a file that cannot be read, or a PG variable does: %w", ErrSettings, file)
	case err != nil: // its text may show a part of the password
		return nil, fmt.Errorf("%w has a parameter with a value that cannot be used, or a PG variable has", ErrSettings)
	}
	conn := config.ConnConfig
	// The statements are written for, and tested with, prepared statements.
	if mode := conn.DefaultQueryExecMode; mode != pgx.QueryExecModeCacheStatement {
		return nil, fmt.Errorf("%w has default_query_exec_mode=%s, with which deliveries cannot be stored: leave it out. "+
			"Where a pooler asks for it, connect to the pooler in session mode, or to PostgreSQL itself", ErrSettings, execMode(mode))
	}
	if conn.StatementCacheCapacity <= 0 {
		return nil, fmt.Errorf("%w has statement_cache_capacity=%d, with which nothing can be stored: leave it out",
			ErrSettings, conn.StatementCacheCapacity)
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	s := &sessions{config: conn.Copy()}
	config.AfterConnect = s.prepare
	return config, nil
}

// checkFiles refuses a pipe in the place of a file that pgx reads: it would wait in a call that nothing ends.
func checkFiles(url string) error {
	paths := dsn.Files(url)
	for _, name := range []string{"PGPASSFILE", "PGSERVICEFILE", "PGSSLCERT", "PGSSLKEY", "PGSSLROOTCERT"} {
		paths = append(paths, os.Getenv(name))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
			return fmt.Errorf("%w names a file that cannot be read, or a PG variable does: %s is a pipe", ErrSettings, path)
		}
	}
	return nil
}

// execMode is a mode as a connection string names it.
func execMode(mode pgx.QueryExecMode) string {
	switch mode {
	case pgx.QueryExecModeCacheDescribe:
		return "cache_describe"
	case pgx.QueryExecModeDescribeExec:
		return "describe_exec"
	case pgx.QueryExecModeExec:
		return "exec"
	case pgx.QueryExecModeSimpleProtocol:
		return "simple_protocol"
	default:
		return mode.String()
	}
}

// closeTime is how long Close waits for the server's answer to the goodbyes, which are sent at once.
const closeTime = 100 * time.Millisecond

// Close closes a pool whose connections are in use no more. It does not wait for a server that stands still: pgx waits
// fifteen seconds for its answer to a goodbye.
func Close(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTime):
	}
}
