package main

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"webhook-gateway/internal/pgtest"
)

// as is a URL with another role and the password that docs/roles.md gives it.
func as(t *testing.T, database, role, password string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, password)
	return u.String()
}

func TestDocumentedRoles(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(readFile(t, "../../docs/roles.md")), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of SQL in docs/roles.md, want 2", len(blocks))
	}
	super := pgtest.NewServer(t, pgtest.Options{Fsync: true}).URL(pgtest.Database)
	execOn(t, super, `DROP SCHEMA agent CASCADE`, `DROP TABLE public.agent_migrations`, blocks[0][1])
	migrateURL := as(t, super, "webhooks_migrate", "change-me-1")
	migrate := cliFor(t, migrateURL, testKey)
	migrate.json("migrate", "up")
	execOn(t, migrateURL, blocks[1][1])

	denied := func(c *cli, args ...string) {
		t.Helper()
		if got := c.run(args...); got.status == exitOK || !strings.Contains(got.err, "permission denied") {
			t.Errorf("%v: status %d, %s", args, got.status, got.err)
		}
	}
	serveURL := as(t, super, "webhooks_serve", "change-me-2")
	server := cliFor(t, serveURL, testKey)
	server.json("config", "check", "--connect")
	server.json("sweep") // makes the days
	execOn(t, serveURL, `CREATE TABLE agent.webhook_deliveries_20250101 PARTITION OF agent.webhook_deliveries FOR VALUES FROM ('2025-01-01 00:00:00+00') TO ('2025-01-02 00:00:00+00')`)
	if got := server.json("sweep")["swept"].([]any)[2].(map[string]any); got["removed"] != 1.0 || got["backlog"] != 0.0 {
		t.Errorf("a day that is past: %v", got)
	}
	execOn(t, migrateURL, `CREATE TABLE agent.webhook_deliveries_20250101 PARTITION OF agent.webhook_deliveries FOR VALUES FROM ('2025-01-01 00:00:00+00') TO ('2025-01-02 00:00:00+00')`)
	if got := server.run("config", "check", "--connect"); got.status != exitUnreachable || !strings.Contains(got.err, "1 days of the inbox belong to another role") {
		t.Errorf("a day of another role: %+v", got)
	}
	execOn(t, migrateURL, `DROP TABLE agent.webhook_deliveries_20250101`)
	if got := server.with(slackSecret, "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin"); got.status == exitOK {
		t.Error("webhooks_serve adds a source")
	}
	if got := migrate.with(slackSecret, "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin"); got.status != exitOK {
		t.Fatalf("webhooks_migrate: %s", got.err)
	}
	migrate.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1")

	s := startServing(t, serveURL)
	r := &running{t: t, client: http.DefaultClient, url: "http://" + s.logged("receiving").Listen}
	const path = "/webhooks/slack/sources/main"
	r.ack(r.postSlack(path, slackSecret, slackEvent("T1", "Ev1", "hi")))
	r.ack(r.postSlack(path, slackSecret, slackEvent("T2", "Ev2", "hi"))) // a drop

	lookURL := as(t, super, "webhooks_look", "change-me-3")
	look := cliFor(t, lookURL, testKey)
	for _, args := range [][]string{{"sources", "list"}, {"jobs", "list"}, {"keys", "stuck"}, {"migrate", "status"},
		{"keys", "list", "--organization", testOrg}} {
		look.json(args...)
	}
	drops := look.json("drops", "list")["drops"].([]any)
	if len(drops) != 1 {
		t.Fatalf("%d drops, want the one of T2", len(drops))
	}
	id := drops[0].(map[string]any)["id"].(string)
	look.json("drops", "show", id)
	denied(look, "sweep")
	denied(look, "config", "check", "--connect")
	denied(look, "jobs", "close", testOrg)
	denied(server, "drops", "redrive", id, "--why", "a test")

	migrate.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T2")
	migrate.json("drops", "redrive", id, "--why", "T2 was registered late")
	wantOn(t, super, 2, `SELECT count(*) FROM agent.webhook_deliveries`)
}
