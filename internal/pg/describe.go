package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Server describes the server behind a connection.
type Server struct {
	Version  string `json:"version"`
	Database string `json:"database"`
	Role     string `json:"role"`
	Standby  bool   `json:"standby"`
	ReadOnly bool   `json:"read_only"` // it accepts no writes
	Fsync    bool   `json:"fsync"`     // it flushes its log to disk
	Pooler   bool   `json:"pooler"`    // a pooler hands out its connections

	RoundTrip time.Duration `json:"-"` // of the fastest of a few statements
}

// Describe queries a server's description.
func Describe(ctx context.Context, pool *pgxpool.Pool) (Server, error) {
	var s Server
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return s, err
	}
	defer conn.Release()
	var backend uint32
	err = conn.QueryRow(ctx, `
		SELECT current_setting('server_version'), current_database(), current_user, pg_is_in_recovery(),
		       current_setting('transaction_read_only') = 'on', current_setting('fsync') <> 'off', pg_backend_pid()`).
		Scan(&s.Version, &s.Database, &s.Role, &s.Standby, &s.ReadOnly, &s.Fsync, &backend)
	if err != nil {
		return s, fmt.Errorf("query the server: %w", err)
	}
	s.Pooler = backend != conn.Conn().PgConn().PID()
	for range 5 {
		began := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return s, fmt.Errorf("measure a round trip: %w", err)
		}
		if took := time.Since(began); s.RoundTrip == 0 || took < s.RoundTrip {
			s.RoundTrip = took
		}
	}
	return s, nil
}
