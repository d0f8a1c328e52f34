package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pins are the session settings that the SQL of this module depends on. A role, a database, the server or the
// connection string may have other values. A statement sets them, because poolers refuse most of them in the startup
// packet. Settings that a server does not have are left out. Each transaction sets its own settings
// (synchronous_commit, timeouts of settling) again.
func pins() [][2]string {
	return [][2]string{
		// How text is transferred: any other encoding turns good data into errors, or into other data.
		{"client_encoding", "UTF8"},
		{"standard_conforming_strings", "on"},
		{"bytea_output", "hex"},
		{"array_nulls", "on"},
		{"DateStyle", "ISO, YMD"},
		{"IntervalStyle", "postgres"},
		{"extra_float_digits", "1"},
		{"TimeZone", "UTC"},                // days are UTC days
		{"client_min_messages", "warning"}, // a warning reports that a COMMIT no longer waits for the standby
		// How names are resolved.
		{"search_path", "pg_catalog, pg_temp"},
		{"default_table_access_method", "heap"}, // the sweep deletes by ctid
		// How transactions behave, and when they are durable. default_transaction_read_only is not touched: a provider
		// sets it when a disk is full.
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"synchronous_commit", "on"}, // or remote_apply, which waits for more
		// A policy that would hide rows is an error: a hidden key would be claimed twice.
		{"row_security", "off"},
		{"exit_on_error", "off"},
		// Statements bound their own waits. The last setting frees the locks of a process that hangs.
		{"lock_timeout", "0"},
		{"statement_timeout", "0"},
		{"transaction_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"idle_in_transaction_session_timeout", "60s"},
		// The plans that the statements need.
		{"plan_cache_mode", "auto"},
		{"jit", "off"},
		{"enable_seqscan", "on"},
		{"enable_indexscan", "on"},
		{"enable_indexonlyscan", "on"},
		{"enable_bitmapscan", "on"},
		{"enable_tidscan", "on"},
		{"enable_nestloop", "on"},
		{"enable_hashjoin", "on"},
		{"enable_mergejoin", "on"},
		{"enable_hashagg", "on"},
		{"enable_sort", "on"},
		{"enable_material", "on"},
		{"enable_partition_pruning", "on"},
		// The server checks within half a minute whether a silent connection is alive. None of its timeouts runs while
		// it waits for the rest of a batch: if a gateway's network failed in the middle of one, its keys would stay
		// locked for two hours, and their deliveries could not be stored.
		{"tcp_keepalives_idle", "15"},
		{"tcp_keepalives_interval", "5"},
		{"tcp_keepalives_count", "3"},
	}
}

// sessions prepares the new connections of one pool.
type sessions struct {
	config *pgx.ConnConfig

	mu     sync.Mutex
	pooled bool // a pooler answers, and it keeps one connection per session
}

// prepare sets the pins. It takes one round trip if PostgreSQL itself answers.
func (s *sessions) prepare(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.ConnectTimeout, errors.New("the session's settings took too long"))
	defer cancel()
	backend, role, err := s.pin(ctx, conn, conn.PgConn().PID())
	if err != nil {
		return err
	}
	if backend != conn.PgConn().PID() {
		// A pooler made the cancel key, so nothing was set.
		if err := s.checkPooler(ctx, conn, backend); err != nil {
			return err
		}
		if _, role, err = s.pin(ctx, conn, backend); err != nil {
			return err
		}
	}
	if role == "origin" {
		return nil
	}
	// Only superusers and roles with the privilege may set it, even to its current value.
	if _, err := run(ctx, conn, `SET session_replication_role = 'origin'`); err != nil {
		return fmt.Errorf("%w: session_replication_role is %s, so triggers do not run and changes of sources and jobs are missed, "+
			"and this role may not change it (%w): run ALTER ROLE … RESET session_replication_role, or ALTER DATABASE …", ErrUnfit, role, err)
	}
	return nil
}

// pin sets the pins if the process behind the connection has the given number. It returns the process's number and the
// session's replication role.
func (s *sessions) pin(ctx context.Context, conn *pgx.Conn, number uint32) (backend uint32, role string, err error) {
	var values []string
	for _, p := range pins() {
		values = append(values, fmt.Sprintf("('%s', '%s')", p[0], p[1]))
	}
	// The role may have a search_path with functions of these names.
	rows, err := run(ctx, conn, fmt.Sprintf(`
		SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('session_replication_role'),
		       (SELECT pg_catalog.count(pg_catalog.set_config(name, value, false)) FROM (VALUES %s) AS pins(name, value)
		         WHERE pg_catalog.pg_backend_pid() = %d AND pg_catalog.current_setting(name, true) IS NOT NULL
		           AND (name <> 'synchronous_commit' OR pg_catalog.current_setting(name) <> 'remote_apply'))`,
		strings.Join(values, ", "), number))
	if err != nil {
		return 0, "", fmt.Errorf("set the session's settings: %w", err)
	}
	n, err := strconv.ParseUint(string(rows[0][0]), 10, 32)
	return uint32(n), string(rows[0][1]), err
}

// run sends a statement as plain text, because a pooler may not keep prepared statements. It returns the rows.
func run(ctx context.Context, conn *pgx.Conn, sql string) ([][][]byte, error) {
	return runOn(ctx, conn.PgConn(), sql)
}

func runOn(ctx context.Context, conn *pgconn.PgConn, sql string) ([][][]byte, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows, nil
}
