// Package pgtest gives tests a real PostgreSQL: one private server for each test process, with a migrated database
// for each test, and servers that a test can stop, crash, freeze and fail over. It needs PostgreSQL's programs on the
// machine (see devdb.Find) but no running server. A test that cannot have its database fails; it is never skipped.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/pg"
)

// M is the part of *testing.M that pgtest needs.
type M interface{ Run() int }

// T is the part of testing.TB that pgtest needs. Importers' tests pass theirs through idempotencytest.T.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Main is for TestMain: it runs the tests, stops their shared server, and ends the process.
func Main(m M) { os.Exit(Stopping(m).Run()) }

// Stopping returns an M whose Run also stops the shared server, for a TestMain that checks something afterwards:
// goleak.VerifyTestMain(pgtest.Stopping(m)).
func Stopping(m M) M { return stopping{m} }

type stopping struct{ M }

func (s stopping) Run() int {
	defer shared.stop()
	return s.M.Run()
}

// New makes a migrated database for the test and returns its URL, for pgxpool.New. When the test ends, the database
// is dropped and its connections are cut. The first call in a process starts the server.
func New(t T) string {
	t.Helper()
	s, name, err := shared.get()
	if err != nil {
		t.Fatalf("start a PostgreSQL for the tests: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := clone(ctx, s, name); err != nil {
		t.Fatalf("make the test's database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		_ = execute(ctx, s, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // if it fails, the database goes with the server
	})
	return s.URL(name)
}

// Pool is New as an open pool, which is closed when the test ends.
func Pool(t T) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(context.Background(), New(t), 1) // as the gateway does
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Database is the migrated database of a server from NewServer: server.URL(pgtest.Database).
const Database = "gateway"

// Options says how to run a server of NewServer.
type Options struct {
	// Fsync makes commits survive a power loss, and puts the data on a disk.
	Fsync bool
	// Settings are further settings of PostgreSQL, by their names.
	Settings map[string]string
}

// Server is a private PostgreSQL that belongs to one test.
type Server struct {
	*devdb.Server
	t    T
	opts Options
}

// NewServer starts a server for this test alone, for tests that stop, crash and start it again. It has a migrated
// database, Database. When the test ends, the server is stopped and its data are removed.
func NewServer(t T, opts Options) *Server {
	t.Helper()
	return newServer(t, baseFor(opts), opts)
}

func newServer(t T, base string, opts Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := open(ctx, base, opts)
	if err == nil {
		t.Cleanup(func() { discard(s) })
		err = s.Start(ctx)
	}
	if err == nil {
		err = clone(ctx, s, Database)
	}
	if err != nil {
		t.Fatalf("start a PostgreSQL for the test: %v", err)
	}
	return &Server{Server: s, t: t, opts: opts}
}

// startTimeout bounds each wait of a test in this package, on a machine that is busy with other tests.
const startTimeout = 2 * time.Minute

func clone(ctx context.Context, s *devdb.Server, name string) error {
	return execute(ctx, s, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
}

// execute runs a statement in the server's own database.
func execute(ctx context.Context, s *devdb.Server, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// sharedServer is the one server of a test process.
type sharedServer struct {
	mu     sync.Mutex
	server *devdb.Server
	err    error
	names  int
}

// shared is process-wide because TestMain and New have nothing else in common.
var shared sharedServer

// get returns the server, which the first call starts, and a new name for a database.
func (s *sharedServer) get() (server *devdb.Server, name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		s.server, s.err = startShared()
	}
	s.names++
	return s.server, "test_" + strconv.Itoa(s.names), s.err
}

func startShared() (*devdb.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	opts := Options{Settings: map[string]string{
		"max_connections": "300", // tests run in parallel, each with a pool
		// Far from UTC, and not a whole number of hours: code that takes the server's zone for UTC fails.
		"timezone": "Pacific/Chatham",
	}}
	s, err := open(ctx, baseFor(opts), opts)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		discard(s)
		return nil, err
	}
	return s, nil
}

func (s *sharedServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		discard(s.server)
		s.server = nil
	}
}
