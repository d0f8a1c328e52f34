package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/devdb"
)

// NewStandby starts a streaming standby of the primary for this test alone, made by pg_basebackup. It has the
// primary's settings and another port. When the test ends, the standby is stopped and its data are removed.
func NewStandby(t T, primary *Server) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := openEmpty(ctx, primary.opts)
	if err != nil {
		t.Fatalf("start a standby for the test: %v", err)
	}
	t.Cleanup(func() { discard(s) })
	standby := &Server{Server: s, t: t, opts: primary.opts}
	if err := standby.Rejoin(ctx, primary); err != nil {
		t.Fatalf("start a standby for the test: %v", err)
	}
	return standby
}

func openEmpty(ctx context.Context, opts Options) (*devdb.Server, error) {
	all, err := lockServers(ctx, baseFor(opts))
	if err != nil {
		return nil, err
	}
	defer all.unlock()
	return all.open(ctx, opts, "")
}

// Rejoin deletes the stopped server's data, makes it a standby of the primary, and starts it at its old address.
func (s *Server) Rejoin(ctx context.Context, primary *Server) error {
	if err := os.RemoveAll(s.DataDir()); err != nil {
		return fmt.Errorf("remove the old data: %w", err)
	}
	backup := s.Command(ctx, "pg_basebackup", "--pgdata="+s.DataDir(), "--dbname="+primary.URL(""),
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the primary: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return s.Start(ctx)
}

// Promote turns a standby into a primary, and returns once it accepts writes.
func (s *Server) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var promoted bool
	if err := conn.QueryRow(ctx, `SELECT pg_promote()`).Scan(&promoted); err != nil {
		return fmt.Errorf("promote the standby: %w", err)
	}
	if !promoted {
		return errors.New("promote the standby: it was not promoted in a minute")
	}
	return nil
}

// Set changes a setting of the running server, for all its sessions and future starts.
func (s *Server) Set(ctx context.Context, name, value string) error {
	err := execute(ctx, s.Server, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, strings.ReplaceAll(value, "'", "''")))
	if err != nil {
		return err
	}
	return execute(ctx, s.Server, `SELECT pg_reload_conf()`)
}

// CancelWaits cancels every wait for a synchronous standby until stop. PostgreSQL then answers the COMMIT like any
// other, with a warning, and shows its rows.
func (s *Server) CancelWaits() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var cancelling sync.WaitGroup
	cancelling.Go(func() {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err != nil {
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for err == nil { // until ctx or the server ends
			_, err = conn.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		}
	})
	return func() { cancel(); cancelling.Wait() }
}
