package devdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// attempts is how often a start is tried. Another process may take the port after it was chosen, and the children of
// a killed server may hold its memory for a moment.
const attempts = 4

// Start runs the server again after Stop or Crash, at the same URL, and returns once it accepts
// connections. It does nothing while the server runs.
func (s *Server) Start(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.ended() {
		return nil
	}
	if s.lock == nil {
		return errors.New("start PostgreSQL: the server was closed")
	}
	if s.password, err = s.folder.prepare(ctx, s.opts); err != nil {
		return err
	}
	chosen := s.port != 0
	for try := range attempts {
		if err = pause(ctx, time.Duration(try)*200*time.Millisecond); err != nil {
			return err
		}
		if !chosen {
			if s.port, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.run(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// run starts one server process and waits for it to answer.
func (s *Server) run(ctx context.Context) error {
	f := s.folder
	log, err := os.OpenFile(filepath.Join(f.dir, logFile), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open PostgreSQL's log: %w", err)
	}
	defer log.Close()
	cmd := f.command(context.Background(), "postgres", "-D", f.data()) // it outlives ctx, which bounds the start
	settings := s.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		cmd.Args = append(cmd.Args, "-c", name+"="+settings[name])
	}
	cmd.Stdout, cmd.Stderr = log, log
	orphaned := syscall.SIGQUIT // a test's data are not needed again
	if s.opts.Fsync {
		orphaned = syscall.SIGINT
	}
	if s.proc, err = spawn(cmd, orphaned); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		s.proc.signal(syscall.SIGQUIT)
		if !s.proc.wait(stopTimeout) {
			s.proc.signal(syscall.SIGKILL)
		}
		return fmt.Errorf("start PostgreSQL on port %d: %w%s", s.port, err, lastLines(log))
	}
	return nil
}

func (s *Server) settings() map[string]string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": "", // a socket's path has at most 107 bytes, and the folder's may be longer
		"cluster_name":            "webhook-gateway",
		"log_checkpoints":         "off",
	}
	if !s.opts.Fsync {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, s.opts.Settings)
	return settings
}

// ready waits until this server answers a connection. Its port alone proves nothing: it opens before recovery is
// over.
func (s *Server) ready(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.proc.done:
			return fmt.Errorf("it ended (%s)", s.proc.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("wait for it: %w (last: %w)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// Servers whose data are copies share a password, so another one of them may answer on our port.
	var dir string
	if err := conn.QueryRow(ctx, `SHOW data_directory`).Scan(&dir); err != nil {
		return err
	}
	if dir != s.folder.data() {
		return errors.New("another server answers")
	}
	return nil
}

// freePort chooses a port below those that systems use for outgoing connections. A port that is free there stays
// free, also while a server is down between Stop and Start.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + rand.IntN(17000)
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("find a free port: 100 between 15000 and 32000 are taken")
}

// lastLines returns the end of PostgreSQL's log, which says why it did not start.
func lastLines(log *os.File) string {
	const most = 2000
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return ""
	}
	text := make([]byte, min(size, most))
	if _, err := log.ReadAt(text, size-int64(len(text))); err != nil {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text))
}
