package idempotency_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pgtest"
)

func TestCheckServer(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	var options idempotency.ServerOptions
	check := func(url, want string, change func(*pgxpool.Config)) {
		t.Helper()
		err := idempotency.CheckServer(t.Context(), open(t, url, change), options)
		if want == "" && err != nil || want != "" && (!errors.Is(err, idempotency.ErrServer) || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	set := func(name, value string) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
	}
	url := server.URL(pgtest.Database)
	check(url, "", nil)
	check(url, "synchronous_commit is off", set("synchronous_commit", "off"))
	check(url, "default_transaction_isolation is repeatable read", set("default_transaction_isolation", "repeatable read"))
	check(url, "default_transaction_read_only is on", set("default_transaction_read_only", "on"))
	check(pgtest.New(t), "fsync is off", nil) // the tests' own server
	options.AcceptFsyncOff = true
	check(pgtest.New(t), "full_page_writes is off", nil) // and nothing else is accepted
	options.AcceptFsyncOff = false

	if _, err := open(t, url, nil).Exec(t.Context(), `CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	check(server.URL("latin"), "encoding is LATIN1", nil)

	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	makeStandby(t, server.Dir())
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(url, "it is a standby", nil)

	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := idempotency.CheckServer(t.Context(), open(t, url, nil), options); err == nil || errors.Is(err, idempotency.ErrServer) {
		t.Errorf("no server: %v, want an error about the connection", err)
	}
}

// makeStandby lets the server in the folder start as a standby that waits for a primary.
func makeStandby(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "PG_VERSION" || d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "global")); err != nil {
			return nil // a database's own folder
		}
		return os.WriteFile(filepath.Join(filepath.Dir(path), "standby.signal"), nil, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
