package devdb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// query runs one statement that returns one text.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func start(t *testing.T, opts devdb.Options) *devdb.Server {
	t.Helper()
	s, err := devdb.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestServerKeepsDataAndURL(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*devdb.Server) error{
		"stopped": (*devdb.Server).Stop,
		"crashed": (*devdb.Server).Crash,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.NewServer(t, pgtest.Options{Fsync: true})
			url := s.URL(pgtest.Database)
			execute(t, url, "CREATE TABLE kept AS SELECT 'yes' AS text")
			if err := end(s.Server); err != nil {
				t.Fatal(err)
			}
			<-s.Done()
			if _, err := pgx.Connect(t.Context(), url); err == nil {
				t.Fatal("the server answers after its end")
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := query(t, url, "SELECT text FROM kept"); got != "yes" {
				t.Errorf("kept: got %q, want yes", got)
			}
			if got := query(t, url, "SHOW fsync"); got != "on" {
				t.Errorf("fsync: got %s, want on", got)
			}
		})
	}
}

func TestDoneWhenAServerDies(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t, pgtest.Options{})
	done := s.Done()
	select {
	case <-done:
		t.Fatal("done while it runs")
	default:
	}
	if err := syscall.Kill(pgtest.Postmaster(t, s.DataDir()), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-done
}

func TestFolderIsHeld(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(devdb.Passable(t), "pg")
	s := start(t, devdb.Options{Dir: dir})
	if _, err := devdb.Start(t.Context(), devdb.Options{Dir: dir}); !errors.Is(err, devdb.ErrInUse) {
		t.Errorf("second start: got %v, want ErrInUse", err)
	}
	query(t, s.URL("postgres"), "SELECT 'still there'")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := devdb.Start(t.Context(), devdb.Options{Dir: dir}); !errors.Is(err, devdb.ErrInUse) {
		t.Errorf("start after Stop: got %v, want ErrInUse", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("a closed server starts")
	}
	start(t, devdb.Options{Dir: dir})
}

func TestCreate(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t, pgtest.Options{})
	for range 2 {
		url, err := s.Create(t.Context(), `odd "name"`)
		if err != nil {
			t.Fatal(err)
		}
		if got := query(t, url, "SELECT current_database()"); got != `odd "name"` {
			t.Errorf("database: got %s", got)
		}
	}
}

func TestServerAsksForItsPassword(t *testing.T) {
	t.Parallel()
	s := start(t, devdb.Options{Dir: filepath.Join(devdb.Passable(t), "pg")})
	cfg, err := pgx.ParseConfig(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Password) < 32 {
		t.Errorf("password: %d characters", len(cfg.Password))
	}
	cfg.Password = "wrong"
	_, err = pgx.ConnectConfig(t.Context(), cfg)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "28P01" {
		t.Errorf("wrong password: got %v, want a refusal", err)
	}
	if got := query(t, s.URL("postgres"), "SHOW listen_addresses"); got != "127.0.0.1" {
		t.Errorf("listens on %s", got)
	}
	for _, path := range []string{s.Dir(), filepath.Join(s.Dir(), "data"), filepath.Join(s.Dir(), "data", "password")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: others may enter: %v", path, info.Mode())
		}
	}
}

func TestStartSaysWhyItFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(devdb.Passable(t), "pg")
	_, err := devdb.Start(t.Context(), devdb.Options{Dir: dir, Settings: map[string]string{"shared_buffers": "lots"}})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("got %v, want PostgreSQL's own words", err)
	}
	start(t, devdb.Options{Dir: dir}) // and leaves the folder free
}

func TestServerHasItsOwnGroup(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t, pgtest.Options{})
	pid := pgtest.Postmaster(t, s.DataDir())
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("group of %d: got %d, %v: Ctrl-C would reach it before us", pid, group, err)
	}
}

func TestDataLieWhereTheUserCanGo(t *testing.T) {
	t.Parallel()
	home := devdb.Passable(t)
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".dev", "pg")
	s := start(t, devdb.Options{Dir: dir})
	query(t, s.URL("postgres"), "SELECT 'works'")
	if os.Geteuid() != 0 {
		if s.Dir() != dir || s.User() != "" {
			t.Errorf("got %s as %q, want %s as ourselves", s.Dir(), s.User(), dir)
		}
		return
	}
	t.Cleanup(func() { _ = s.Close(); _ = os.RemoveAll(s.Dir()) })
	if !strings.HasPrefix(s.Dir(), "/var/lib/webhook-gateway/pg-") || s.User() == "" {
		t.Errorf("got %s as %q, want another folder as another user", s.Dir(), s.User())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := start(t, devdb.Options{Dir: dir}); again.Dir() != s.Dir() {
		t.Errorf("second start: got %s, want %s", again.Dir(), s.Dir())
	}
}
