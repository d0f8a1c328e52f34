package devdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// NewStandby starts a streaming standby of the primary, made by pg_basebackup, that belongs to this test
// alone. It has the primary's settings and a port of its own. It is stopped and its data are removed when the
// test ends.
func NewStandby(t T, primary *Server) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	s, err := primary.newStandby(ctx)
	if s != nil {
		t.Cleanup(s.discard)
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		t.Fatalf("start a standby for the test: %v", err)
	}
	return s
}

func (s *Server) newStandby(ctx context.Context) (*Server, error) {
	opts := s.opts
	opts.Port = 0
	w, err := enterWorkshop(ctx, workshopFor(opts))
	if err != nil {
		return nil, err
	}
	defer w.leave()
	standby, err := w.server(opts)
	if err != nil {
		return nil, err
	}
	return standby, s.backup(ctx, filepath.Join(standby.folder.dir, dataDir))
}

// backup copies the running server's data to a folder from which a standby of it can be started.
func (s *Server) backup(ctx context.Context, data string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.folder.bin.Dir, "pg_basebackup"), "--pgdata="+data, "--dbname="+s.URL(""),
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
	cmd.Dir, cmd.Env = filepath.Dir(data), s.folder.env()
	s.folder.owner.as(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the primary: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Promote makes a standby a primary, and returns once it takes writes.
func (s *Server) Promote(ctx context.Context) error {
	return s.admin(ctx, func(conn *pgx.Conn) error {
		var promoted bool
		if err := conn.QueryRow(ctx, `SELECT pg_promote()`).Scan(&promoted); err != nil {
			return fmt.Errorf("promote the standby: %w", err)
		}
		if !promoted {
			return fmt.Errorf("promote the standby: it was not promoted in a minute")
		}
		return nil
	})
}

// Set changes a setting of the running server, for all its sessions and future starts.
func (s *Server) Set(ctx context.Context, name, value string) error {
	return s.admin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, strings.ReplaceAll(value, "'", "''")))
		if err == nil {
			_, err = conn.Exec(ctx, `SELECT pg_reload_conf()`)
		}
		return err
	})
}

// Rejoin gives up the stopped server's data and makes it a standby of the primary, at the address that it had.
func (s *Server) Rejoin(ctx context.Context, primary *Server) error {
	data := filepath.Join(s.folder.dir, dataDir)
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("remove the old data: %w", err)
	}
	if err := primary.backup(ctx, data); err != nil {
		return err
	}
	return s.Start(ctx)
}

// CancelWaits cancels every wait for a synchronous standby until stop. PostgreSQL then answers the COMMIT like any other,
// with a warning, and shows its rows.
func (s *Server) CancelWaits() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var cancelling sync.WaitGroup
	cancelling.Go(func() {
		_ = s.admin(ctx, func(conn *pgx.Conn) error { // it ends with ctx, or with the server
			for {
				if _, err := conn.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`); err != nil {
					return err
				}
			}
		})
	})
	return func() { cancel(); cancelling.Wait() }
}
