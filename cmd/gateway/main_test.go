package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/test/binary"
)

func TestMain(m *testing.M) { binary.Main(m) }

const (
	otherKey = "HxAREhMUFRYXGBkaGxwdHgABAgMEBQYHCAkKCwwNDg8="
	testOrg  = "3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e"
)

// result is what a command ended with.
type result struct {
	status      int
	stdout, err string
}

// call runs a command in this process.
func call(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	return callContext(t.Context(), stdin, args...)
}

func callContext(ctx context.Context, stdin io.Reader, args ...string) result {
	var out, errs bytes.Buffer
	status := run(ctx, args, streams{in: stdin, out: &out, err: &errs})
	return result{status, out.String(), errs.String()}
}

// cli runs commands on one database, whose settings lie in a file.
type cli struct {
	t    *testing.T
	file string
	url  string
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	return cliFor(t, pgtest.New(t), testKey)
}

// cliFor takes the settings given; an empty one is left out.
func cliFor(t *testing.T, databaseURL, key string) *cli {
	t.Helper()
	var text string
	for name, value := range map[string]string{"database_url": databaseURL, "secrets_key": key} {
		if value != "" {
			text += name + ": " + value + "\n"
		}
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cli{t: t, file: file, url: databaseURL}
}

// with runs a command that reads stdin.
func (c *cli) with(stdin string, args ...string) result {
	c.t.Helper()
	return call(c.t, strings.NewReader(stdin), append(args, "--config", c.file)...)
}

// run runs a command that must not read stdin.
func (c *cli) run(args ...string) result {
	c.t.Helper()
	return call(c.t, untouched{c.t}, append(args, "--config", c.file)...)
}

// json runs a command that must succeed, and returns the one object that it prints.
func (c *cli) json(args ...string) map[string]any {
	c.t.Helper()
	return c.run(append(args, "--json")...).json(c.t)
}

func (r result) json(t *testing.T) map[string]any {
	t.Helper()
	if r.status != exitOK {
		t.Fatalf("status %d, stderr: %s", r.status, r.err)
	}
	return r.object(t)
}

// object returns the one JSON object on stdout, whatever the status.
func (r result) object(t *testing.T) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		t.Fatalf("stdout is not a JSON object: %v\n%s", err, r.stdout)
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		t.Fatalf("stdout holds more than one JSON object:\n%s", r.stdout)
	}
	return object
}

// wants checks the status and that stderr says each of the texts; stdout must be empty.
func (r result) wants(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d; stderr: %s", r.status, status, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.err, text) {
			t.Errorf("stderr does not say %q:\n%s", text, r.err)
		}
	}
	if r.stdout != "" {
		t.Errorf("stdout of a failure: %s", r.stdout)
	}
}

// untouched is a stdin that no command may read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("stdin was read")
	return 0, io.EOF
}

// exec runs a statement on the database.
func (c *cli) exec(sql string, args ...any) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(c.t.Context()))
	if _, err := conn.Exec(c.t.Context(), sql, args...); err != nil {
		c.t.Fatal(err)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"sourcse"}, `unknown command "sourcse"; did you mean sources?`},
		{[]string{"sources", "ad"}, `gateway sources has no command "ad" (known: add, list, show, set-secret, remove)`},
		{[]string{"jobs"}, "give a command: gateway jobs add|list|show|set-secret|close"},
		{[]string{"sources", "list", "--jsn"}, "unknown flag: --jsn"},
		{[]string{"sources", "list", "extra"}, `unexpected argument "extra"`},
		{[]string{"jobs", "set-secret", "--rotating", "soon"}, `invalid argument "soon" for "--rotating"`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			call(t, untouched{t}, tt.args...).wants(t, exitUsage, tt.says)
		})
	}
}

func TestEndsWithoutLogReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unread, stderr := io.Pipe()
		began := time.Now()
		status := run(t.Context(), []string{"no-such-command"}, streams{in: strings.NewReader(""), out: io.Discard, err: stderr})
		if took := time.Since(began); status != exitUsage || took != time.Second {
			t.Errorf("status %d after %v, want %d after a second", status, took, exitUsage)
		}
		_ = unread.Close()
	})
}
