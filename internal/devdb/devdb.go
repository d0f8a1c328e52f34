// Package devdb runs a private PostgreSQL from the installed programs, with its data in a folder. A server listens
// only on 127.0.0.1, asks for a password that is random for each folder, and does not outlive the process that
// started it, even if that is killed. Package pgtest builds on it for tests.
package devdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser owns every database of a private server.
const superuser = "gateway"

// ErrInUse says that another living process runs a server in the folder.
var ErrInUse = errors.New("in use by another process")

// Options says how to run a server.
type Options struct {
	// Dir is the folder for data, password and log. It is made if it is missing. Server.Dir returns where they really
	// are.
	Dir string
	// Binaries is the PostgreSQL to run; empty means the one that Find returns.
	Binaries Binaries
	// From is the data folder of a stopped server, which is copied instead of making new data.
	From string
	// Port to listen on. 0 chooses a free one, which stays the same when the Server is started again.
	Port int
	// Fsync makes commits survive a power loss. Without it the server is faster, for tests.
	Fsync bool
	// Settings are further settings of PostgreSQL, by their names.
	Settings map[string]string
}

// Server is a private PostgreSQL. Its methods are safe for concurrent use.
type Server struct {
	opts   Options
	folder folder

	mu       sync.Mutex
	lock     *os.File // held from Open to Close
	password string
	port     int
	proc     *process
}

// Start runs a server on opts.Dir and returns once it accepts connections; ctx bounds the start, not the server. The
// first start makes the data. If a killed process has left a server in the folder, that is stopped first; if the
// process is alive, the error is ErrInUse. If PostgreSQL is not installed, the error is a *MissingError. The caller
// ends the server with Close.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s, err := Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Open reserves the folder opts.Dir for this process, without starting a server. Its errors are those of Start.
func Open(ctx context.Context, opts Options) (*Server, error) {
	f, err := findFolder(ctx, opts)
	if err != nil {
		return nil, err
	}
	lock, err := f.acquire()
	if err != nil {
		return nil, err
	}
	return &Server{opts: opts, folder: f, lock: lock, port: opts.Port}, nil
}

// Dir returns the folder that holds the data, the password and PostgreSQL's log. It differs from Options.Dir when
// PostgreSQL's user cannot enter that.
func (s *Server) Dir() string { return s.folder.dir }

// DataDir returns the folder in Dir that PostgreSQL calls its data directory.
func (s *Server) DataDir() string { return s.folder.data() }

// User returns the user that PostgreSQL runs as; empty when it is ours.
func (s *Server) User() string { return s.folder.owner.name }

// URL returns the URL of a database on the server, with the password. It stays the same when the server is stopped
// and started again.
func (s *Server) URL(database string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url(database)
}

func (s *Server) url(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Create makes a database if it does not exist, and returns its URL.
func (s *Server) Create(ctx context.Context, database string) (string, error) {
	err := s.admin(ctx, func(conn *pgx.Conn) error {
		var exists bool
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, database).Scan(&exists)
		if err != nil || exists {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create database %s: %w", database, err)
	}
	return s.URL(database), nil
}

// admin runs fn on a connection to the server's own database.
func (s *Server) admin(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return fn(conn)
}

// Done returns a channel that is closed when the running server ends, by Stop or by itself. It is already closed if
// no server was started.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return s.proc.done
}

// Stop ends the server as an operator would: it disconnects the clients and writes everything to disk. It returns
// when the server has ended. The Server keeps its folder and can be started again.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Close stops the server if it runs, and gives up the folder. The Server cannot be started again.
func (s *Server) Close() error {
	err := s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		_ = s.lock.Close() // it was only locked, never written
		s.lock = nil
	}
	return err
}

// Crash ends the server as a crash would: nothing is finished or written, and the next Start recovers from the log.
// It uses PostgreSQL's immediate shutdown, because the children of a killed server keep running for a while.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

// stopTimeout is how long a server may take to end. A fast shutdown writes a checkpoint.
const stopTimeout = 30 * time.Second

func (s *Server) end(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	s.proc.signal(sig)
	if s.proc.wait(stopTimeout) {
		return nil
	}
	s.proc.signal(syscall.SIGKILL)
	<-s.proc.done
	return fmt.Errorf("stop PostgreSQL: killed after %v", stopTimeout)
}
