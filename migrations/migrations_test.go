package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// names lists the migrations, in their order.
func names(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// empty returns a database that was never migrated.
func empty(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	url = pgtest.New(t)
	conn = connect(t, url)
	execute(t, conn, "DROP SCHEMA agent CASCADE; DROP TABLE public.agent_migrations")
	return url, conn
}

func applied(list []migrations.Applied) []string {
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}

func TestUpOnceInOrder(t *testing.T) {
	t.Parallel()
	url, conn := empty(t)
	first, err := migrations.Up(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names(t), applied(first)); diff != "" {
		t.Errorf("first run (-want +got):\n%s", diff)
	}
	again, err := migrations.Up(t.Context(), url)
	if err != nil || len(again) != 0 {
		t.Errorf("second run: got %v, %v, want nothing", again, err)
	}
	for _, table := range []string{"idempotency_keys", "provider_sources", "provider_jobs", "webhook_deliveries", "webhook_drops"} {
		execute(t, conn, "SELECT * FROM agent."+table)
	}
}

func TestStatusWritesNothing(t *testing.T) {
	t.Parallel()
	url, conn := empty(t)
	want := func(pending int) {
		t.Helper()
		states, err := migrations.Status(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		n := 0
		for _, s := range states {
			got = append(got, s.Name)
			if s.AppliedAt.IsZero() {
				n++
			} else if age := time.Since(s.AppliedAt); age < -time.Minute || age > time.Minute {
				t.Errorf("%s: applied %v ago", s.Name, age)
			}
		}
		if diff := cmp.Diff(names(t), got); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
		if counted, err := migrations.Pending(t.Context(), url); err != nil || counted != pending || n != pending {
			t.Errorf("pending: got %d, %d, %v, want %d", n, counted, err, pending)
		}
	}
	want(len(names(t)))
	var table *string
	if err := conn.QueryRow(t.Context(), "SELECT to_regclass('public.agent_migrations')::text").Scan(&table); err != nil || table != nil {
		t.Errorf("looking made a table: %v, %v", table, err)
	}
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	want(0)
	execute(t, conn, "DELETE FROM public.agent_migrations WHERE version_id = 2")
	want(1)
}

func TestConcurrentUp(t *testing.T) {
	t.Parallel()
	url, _ := empty(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []string
	for range 3 {
		wg.Go(func() {
			list, err := migrations.Up(t.Context(), url)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, applied(list)...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(names(t), all); diff != "" {
		t.Errorf("applied by all together (-want +got):\n%s", diff)
	}
}

func TestFailedMigration(t *testing.T) {
	t.Parallel()
	url, conn := empty(t)
	execute(t, conn, "CREATE SCHEMA agent; CREATE TABLE agent.webhook_drops ()") // in the way of the third
	list, err := migrations.Up(t.Context(), url)
	if err == nil || !strings.Contains(err.Error(), "migrate "+names(t)[2]) {
		t.Fatalf("got %v, want an error that names %s", err, names(t)[2])
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "42P07" {
		t.Errorf("got %v, want PostgreSQL's error inside", err)
	}
	if diff := cmp.Diff(names(t)[:2], applied(list)); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	execute(t, conn, "DROP TABLE agent.webhook_drops")
	list, err = migrations.Up(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names(t)[2:], applied(list)); diff != "" {
		t.Errorf("applied afterwards (-want +got):\n%s", diff)
	}
}

func TestUpWaitsForOther(t *testing.T) {
	t.Parallel()
	url, conn := empty(t)
	execute(t, conn, "SELECT pg_advisory_lock(4097083626)") // goose's
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if list, err := migrations.Up(ctx, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v, want to wait in vain", list, err)
	}
	if n, err := migrations.Pending(t.Context(), url); err != nil || n != len(names(t)) {
		t.Errorf("pending meanwhile: got %d, %v", n, err)
	}
}

func TestBusyTable(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	conn := connect(t, url)
	execute(t, conn, "BEGIN; LOCK TABLE public.agent_migrations")
	_, err := migrations.Up(t.Context(), url)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("got %v, want a lock time-out", err)
	}
}

func TestDatabaseURLs(t *testing.T) {
	t.Parallel()
	t.Run("with settings of the pool", func(t *testing.T) {
		t.Parallel()
		if n, err := migrations.Pending(t.Context(), pgtest.New(t)+"&pool_max_conns=4"); err != nil || n != 0 {
			t.Errorf("got %d, %v", n, err)
		}
	})
	for _, url := range []string{"postgres://me:hunter2@host:notaport/db", "postgres://me:hunter2@127.0.0.1:1/db"} {
		if _, err := migrations.Up(t.Context(), url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want an error without the password", err)
		}
	}
}

func TestFilesOnlyGoUp(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`^\d{4}_[a-z_]+\.sql$`)
	for i, name := range names(t) {
		text, err := os.ReadFile(path.Join("sql", name))
		if err != nil {
			t.Fatal(err)
		}
		if !named.MatchString(name) || !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			t.Errorf("%s: want NNNN_words.sql without a gap", name)
		}
		if !strings.HasPrefix(string(text), "-- +goose Up\n") || strings.Contains(string(text), "+goose Down") {
			t.Errorf("%s: want a +goose Up at its head and no Down", name)
		}
	}
}
