package pgtest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		child(role)
		return
	}
	pgtest.Main(m)
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

func TestEachTestHasItsDatabase(t *testing.T) {
	t.Parallel()
	const insert = `INSERT INTO agent.provider_sources (id, provider, name)
		VALUES (gen_random_uuid(), 'slack', 'main') RETURNING current_database()`
	names := map[string]bool{}
	for range 3 { // the name is unique: a shared table would refuse the second
		pool := pgtest.Pool(t)
		var name string
		if err := pool.QueryRow(t.Context(), insert).Scan(&name); err != nil {
			t.Fatal(err)
		}
		names[name] = true
	}
	if len(names) != 3 {
		t.Errorf("databases: got %v, want three", names)
	}
}

func TestDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("that leaves a connection open", func(t *testing.T) {
		url = pgtest.New(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.PgConn() })
	})
	_, err := pgx.Connect(t.Context(), url)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "3D000" {
		t.Errorf("connect: got %v, want an unknown database", err)
	}
}

func TestServerIsNotInUTC(t *testing.T) {
	t.Parallel()
	var zone string
	conn, err := pgx.Connect(t.Context(), pgtest.New(t)) // a pool's sessions are in UTC
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SHOW timezone").Scan(&zone); err != nil || zone == "UTC" {
		t.Errorf("zone: got %q, %v: a test could not tell it from UTC", zone, err)
	}
}
