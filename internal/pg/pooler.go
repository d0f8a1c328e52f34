package pg

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// A pooler that rotates its connections may look like a dedicated one once.
	poolerTries = 3
	// poolerWait is how long a pooler may take to hand out a second connection.
	poolerWait = 3 * time.Second
)

// checkPooler refuses a pooler that gives a session's connection to others between two transactions: our settings would
// be lost, or would change for others. It opens a second connection to find out. While that one is inside a
// transaction, it must have another server process than ours, and ours must still have its own.
func (s *sessions) checkPooler(ctx context.Context, conn *pgx.Conn, backend uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pooled {
		return nil
	}
	for range poolerTries {
		shared, err := s.shares(ctx, conn, backend)
		if err != nil {
			return fmt.Errorf("check whether the pooler at DATABASE_URL keeps one connection per session: %w", err)
		}
		if shared {
			return fmt.Errorf("%w: it is behind a pooler (such as PgBouncer) that hands out a connection for each transaction, "+
				"and the gateway needs one for each session: set pool_mode = session for this database in the pooler, "+
				"or connect to PostgreSQL itself", ErrUnfit)
		}
	}
	s.pooled = true
	return nil
}

func (s *sessions) shares(ctx context.Context, conn *pgx.Conn, backend uint32) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, poolerWait, fmt.Errorf("no second connection within %s", poolerWait))
	defer cancel()
	other, err := pgconn.ConnectConfig(ctx, &s.config.Config)
	if err != nil {
		return false, err
	}
	defer other.Close(context.WithoutCancel(ctx))
	if _, err := runOn(ctx, other, `BEGIN`); err != nil {
		return false, err
	}
	// If the connection closed inside a transaction, the pooler would close its own to the server too.
	defer func() { _, _ = runOn(ctx, other, `ROLLBACK`) }()
	others, err := backendOf(ctx, other)
	if err != nil {
		return false, err
	}
	ours, err := backendOf(ctx, conn.PgConn())
	return ours != backend || others == backend, err
}

func backendOf(ctx context.Context, conn *pgconn.PgConn) (uint32, error) {
	rows, err := runOn(ctx, conn, `SELECT pg_catalog.pg_backend_pid()`)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(rows[0][0]), 10, 32)
	return uint32(n), err
}
