package main

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pgtest"
)

func TestConfigCheckProblems(t *testing.T) {
	t.Parallel()
	c := cliFor(t, "", "bm90IDMyIGJ5dGVz")
	text := readFile(t, c.file)
	if err := os.WriteFile(c.file, append(text, "max_body_bytes: 1\nread_timeout: soon\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"GATEWAY_MAX_BODY_BYTES", "GATEWAY_READ_TIMEOUT", "DATABASE_URL", "GATEWAY_SECRETS_KEY"}

	r := c.run("config", "check", "--json")
	got := r.object(t)
	if r.status != exitConfig || got["ok"] != false {
		t.Errorf("status %d, ok %v", r.status, got["ok"])
	}
	problems := got["problems"].([]any)
	if len(problems) != len(names) {
		t.Errorf("problems %q, want one for each of %q", problems, names)
	}
	for _, name := range names {
		found := false
		for _, p := range problems {
			found = found || strings.HasPrefix(p.(string), name)
		}
		if !found {
			t.Errorf("no problem begins with %s: %q", name, problems)
		}
		if !strings.Contains(r.err, name) {
			t.Errorf("stderr does not name %s: %s", name, r.err)
		}
	}
}

func TestConfigCheckValues(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	r := c.run("config", "check")
	if r.status != exitOK || r.err != "" {
		t.Fatalf("status %d, stderr %s", r.status, r.err)
	}
	for _, text := range []string{"GATEWAY_LISTEN", ":8080", "GATEWAY_SECRETS_KEY", "[redacted]"} {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("stdout does not hold %q:\n%s", text, r.stdout)
		}
	}
	if got := c.json("config", "check"); got["ok"] != true || len(got["problems"].([]any)) != 0 {
		t.Errorf("ok %v, problems %v", got["ok"], got["problems"])
	}
}

func TestConfigCheckConnects(t *testing.T) {
	t.Parallel()
	check := func(c *cli, status, problems int, says string) {
		t.Helper()
		r := c.run("config", "check", "--connect", "--json")
		got := r.object(t)
		if r.status != status || len(got["problems"].([]any)) != problems || !strings.Contains(r.err, says) {
			t.Errorf("status %d, want %d and %q; problems %v", r.status, status, says, got["problems"])
		}
	}
	check(cliFor(t, "postgres://gateway@127.0.0.1:1/gateway", testKey), exitUnreachable, 1, "does not answer")
	// The tests' server has fsync and full_page_writes off, which serve refuses.
	check(newCLI(t), exitUnreachable, 2, "fsync")
	// What is wrong already is not tried.
	check(cliFor(t, "", testKey), exitConfig, 1, "DATABASE_URL")
}

func TestConfigCheckConnect(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := server.URL(pgtest.Database)
	c := cliFor(t, url, testKey)
	found := c.json("config", "check", "--connect")["database"].(map[string]any)
	if took := found["round_trip_ms"].(float64); took <= 0 || took > 1000 {
		t.Errorf("a round trip of %v ms", took)
	}
	delete(found, "round_trip_ms")
	if version := found["version"].(string); !regexp.MustCompile(`^\d+\.\d+`).MatchString(version) {
		t.Errorf("version %q", version)
	}
	delete(found, "version")
	want := map[string]any{"database": pgtest.Database, "role": "gateway", "standby": false, "read_only": false, "fsync": true,
		"pooler": false, "schema_version": 5.0, "schema_newer": false}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if got := c.run("config", "check", "--connect"); !strings.Contains(got.stdout, "database gateway, role gateway, primary, schema 5, round trip ") {
		t.Errorf("stdout:\n%s", got.stdout)
	}
	// It leaves nothing.
	for _, table := range []string{"agent.idempotency_keys", "agent.webhook_deliveries", "agent.webhook_drops", "pg_inherits WHERE inhparent = 'agent.webhook_deliveries'::regclass"} {
		wantOn(t, url, 0, `SELECT count(*) FROM `+table)
	}

	for _, tt := range []struct {
		name, spoil string
		mend, says  []string
	}{
		{"read-only", `ALTER DATABASE gateway SET default_transaction_read_only = on`,
			[]string{`SET default_transaction_read_only = off`, `ALTER DATABASE gateway RESET default_transaction_read_only`}, []string{"it accepts no writes"}},
		{"a key cannot be claimed", `ALTER TABLE agent.idempotency_keys ADD COLUMN demanded text NOT NULL`,
			[]string{`ALTER TABLE agent.idempotency_keys DROP COLUMN demanded`}, []string{"a delivery cannot be stored", "demanded"}},
		{"an inbox row cannot be stored", `ALTER TABLE agent.webhook_deliveries ADD CHECK (body = '')`,
			[]string{`ALTER TABLE agent.webhook_deliveries DROP CONSTRAINT webhook_deliveries_body_check`}, []string{"a delivery cannot be stored", "webhook_deliveries_body_check"}},
		{"a drop cannot be kept", `ALTER TABLE agent.webhook_drops ADD CHECK (reason = '')`,
			[]string{`ALTER TABLE agent.webhook_drops DROP CONSTRAINT webhook_drops_reason_check`}, []string{"a delivery cannot be stored", "webhook_drops_reason_check"}},
		{"jobs cannot be read", `ALTER TABLE agent.provider_jobs RENAME COLUMN fallback TO other`,
			[]string{`ALTER TABLE agent.provider_jobs RENAME COLUMN other TO fallback`}, []string{`column "fallback" does not exist`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			execOn(t, url, tt.spoil)
			defer execOn(t, url, tt.mend...)
			got := c.run("config", "check", "--connect")
			if got.status != exitUnreachable {
				t.Errorf("status %d: %s", got.status, got.err)
			}
			for _, text := range tt.says {
				if !strings.Contains(got.err, text) {
					t.Errorf("it does not say %q: %s", text, got.err)
				}
			}
		})
	}
	execOn(t, url, `CREATE ROLE plain LOGIN PASSWORD 'p'`)
	got := cliFor(t, as(t, url, "plain", "p"), testKey).run("config", "check", "--connect")
	if got.status != exitUnreachable || !strings.Contains(got.err, "permission denied") {
		t.Errorf("a role that owns nothing: status %d, %s", got.status, got.err)
	}
}

func TestAProblemThatStandsAloneIsNotLost(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{0: nil, 1: io.EOF, 2: gateway.SettingError{Err: errors.Join(io.EOF, io.ErrNoProgress)}} {
		if got := joined(err); len(got) != want {
			t.Errorf("%v is taken apart into %q, want %d", err, got, want)
		}
	}
}
