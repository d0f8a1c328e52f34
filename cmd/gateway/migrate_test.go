package main

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/pgtest"
)

// emptyDatabase is one that was never migrated.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	of := pgtest.New(t)
	name := "empty_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec := func(sql string) {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, of)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE DATABASE " + name)
	t.Cleanup(func() { exec("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func TestMigrateUpAndStatus(t *testing.T) {
	t.Parallel()
	c := cliFor(t, emptyDatabase(t), "")
	status := c.json("migrate", "status")
	all := status["migrations"].([]any)
	if len(all) == 0 || status["pending"] != float64(len(all)) {
		t.Fatalf("status of an empty database: %v", status)
	}
	if r := c.run("migrate", "status"); strings.Count(r.stdout, "pending") != len(all) || !strings.Contains(r.err, "gateway migrate up") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.err)
	}
	applied := c.json("migrate", "up")["applied"].([]any)
	if len(applied) != len(all) || applied[0].(map[string]any)["name"] != all[0].(map[string]any)["name"] {
		t.Errorf("applied %v of %v", applied, all)
	}
	status = c.json("migrate", "status")
	if status["pending"] != 0.0 || status["migrations"].([]any)[0].(map[string]any)["applied_at"] == nil {
		t.Errorf("status afterwards: %v", status)
	}
	if again := c.json("migrate", "up")["applied"].([]any); len(again) != 0 {
		t.Errorf("the second run applied %v", again)
	}
	if r := c.run("migrate", "up"); r.stdout != "" || !strings.Contains(r.err, "nothing to apply") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.err)
	}
}

func TestMigrateUnreachable(t *testing.T) {
	t.Parallel()
	c := cliFor(t, "postgres://gateway:hidden-password@127.0.0.1:1/gateway", "")
	for _, command := range []string{"up", "status"} {
		r := c.run("migrate", command, "--json")
		r.wants(t, exitUnreachable, "PostgreSQL at DATABASE_URL does not answer")
		if strings.Contains(r.err, "hidden-password") {
			t.Errorf("the password is printed: %s", r.err)
		}
	}
	cliFor(t, "", "").run("migrate", "up").wants(t, exitConfig, "DATABASE_URL: is not set")
}

func TestMigrateNewerSchema(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.exec(`INSERT INTO public.agent_migrations (version_id, is_applied) VALUES (99, true)`)
	if r := c.run("migrate", "up"); r.status != exitOK || !strings.Contains(r.err, "nothing to apply: the schema is newer than this build: it has migration 99") {
		t.Errorf("migrate up: %+v", r)
	}
	if r := c.run("migrate", "status"); r.status != exitOK || !strings.Contains(r.stdout, "99 (of a newer build)") || strings.Contains(r.err, "pending") {
		t.Errorf("migrate status: %+v", r)
	}
	list := c.json("migrate", "status")["migrations"].([]any)
	if last := list[len(list)-1].(map[string]any); last["newer"] != true || last["version"] != 99.0 {
		t.Errorf("migrate status --json ends with %v", last)
	}
}
