package devdb

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pg"
)

// M is what devdb needs of *testing.M. This package is also part of the gateway's binary, which has no
// use for the package testing.
type M interface{ Run() int }

// T is what devdb needs of testing.TB.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Main is for TestMain: it runs the tests, stops the server that they shared, and ends the process.
func Main(m M) { os.Exit(Stopping(m).Run()) }

// Stopping returns an M whose Run also stops the server that the tests shared, for a TestMain that has
// something to look at afterwards: goleak.VerifyTestMain(devdb.Stopping(m)).
func Stopping(m M) M { return stopping{m} }

type stopping struct{ M }

func (s stopping) Run() int {
	defer shared.stop()
	return s.M.Run()
}

// New gives the test a database of its own with the schema migrated, as a URL for pgxpool.New. It is
// dropped when the test ends, and whoever is still connected is cut off. The first call in a process
// starts the server. A test that cannot have its database fails; it is never skipped.
func New(t T) string {
	t.Helper()
	s, err := shared.get()
	if err != nil {
		t.Fatalf("start a PostgreSQL for the tests: %v", err)
	}
	name := shared.nextName()
	if err := s.clone(name); err != nil {
		t.Fatalf("make the test's database: %v", err)
	}
	t.Cleanup(func() { s.drop(name) })
	return s.URL(name)
}

// Pool is New opened as a pool, which is closed when the test ends.
func Pool(t T) *pgxpool.Pool {
	t.Helper()
	return open(t, New(t))
}

func open(t T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(context.Background(), url, 1) // as the gateway does
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Database is the migrated database of a server from NewServer: server.URL(devdb.Database).
const Database = "gateway"

// NewServer starts a server that belongs to this test alone, for tests that stop, crash and start it
// again. It has a migrated database, Database. Options.Dir has no meaning here. The server is stopped
// and its data are removed when the test ends.
func NewServer(t T, opts Options) *Server {
	t.Helper()
	return newServerIn(t, workshopFor(opts), opts)
}

func newServerIn(t T, above string, opts Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	s, err := newRun(ctx, above, opts)
	if err == nil {
		t.Cleanup(s.discard)
		err = s.Start(ctx)
	}
	if err == nil {
		err = s.clone(Database)
	}
	if err != nil {
		t.Fatalf("start a PostgreSQL for the test: %v", err)
	}
	return s
}

// starting bounds everything that a test waits for here, on a machine that is busy with other tests.
const starting = 2 * time.Minute

func (s *Server) clone(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	return s.admin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
		return err
	})
}

func (s *Server) drop(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	// A database that stays goes with the server; the test is over and has nothing to say about it.
	_ = s.admin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name))
		return err
	})
}

// discard ends a server whose data nobody needs.
func (s *Server) discard() {
	_ = s.Crash() // it is killed if need be, and nothing of it is kept
	s.remove()
}

// sharedServer is the one server of a test process.
type sharedServer struct {
	mu     sync.Mutex
	server *Server
	err    error
	names  int
}

// shared is process-wide because the tests of a package are: TestMain and New have nothing else in common.
var shared sharedServer

func (s *sharedServer) get() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		s.server, s.err = startShared()
	}
	return s.server, s.err
}

func startShared() (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	opts := Options{Settings: map[string]string{
		"max_connections": "300", // tests run in parallel, each with a pool
		// Far from UTC and no whole number of hours: code that takes the server's zone for UTC is found out.
		"timezone": "Pacific/Chatham",
	}}
	server, err := newRun(ctx, workshopFor(opts), opts)
	if err != nil {
		return nil, err
	}
	if err := server.Start(ctx); err != nil {
		server.remove()
		return nil, err
	}
	return server, nil
}

func (s *sharedServer) nextName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	return "test_" + strconv.Itoa(s.names)
}

func (s *sharedServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		s.server.discard()
		s.server = nil
	}
}
