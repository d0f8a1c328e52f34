package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/test/pooler"
)

func TestPgBouncerInSessionMode(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := pooler.Start(t, server.URL(pgtest.Database), "session")
	execOn(t, server.URL(pgtest.Database), `DROP SCHEMA agent CASCADE`, `DROP TABLE public.agent_migrations`)
	c := cliFor(t, url, testKey)
	if got := c.json("migrate", "up")["applied"].([]any); len(got) == 0 {
		t.Error("migrate up applied nothing")
	}
	if got := c.run("migrate", "status"); got.status != exitOK || strings.Contains(got.stdout, "pending") {
		t.Errorf("migrate status: %+v", got)
	}
	c.json("config", "check", "--connect")
	if got := c.with(slackSecret, "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin"); got.status != exitOK {
		t.Fatalf("sources add: %s", got.err)
	}
	c.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1")

	s := startServing(t, url)
	r := &running{t: t, client: http.DefaultClient, url: "http://" + s.logged("receiving").Listen}
	for range 2 { // and a repeat
		r.ack(r.postSlack("/webhooks/slack/sources/main", slackSecret, slackEvent("T1", "Ev1", "hi")))
	}
	if got := c.json("drops", "list")["drops"].([]any); len(got) != 0 {
		t.Errorf("drops: %v", got)
	}
	wantOn(t, server.URL(pgtest.Database), 1, `SELECT count(*) FROM agent.webhook_deliveries`)
}

func TestPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	direct := pgtest.New(t)
	url := pooler.Start(t, direct, "transaction")
	c := cliFor(t, url, testKey)
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"sources", "list"}, {"sweep"}} {
		c.run(args...).wants(t, exitUnreachable, "behind a pooler", "pool_mode = session")
	}
	if got := c.run("config", "check", "--connect"); got.status != exitUnreachable || !strings.Contains(got.err, "pool_mode = session") {
		t.Errorf("config check: %+v", got)
	}
	err := startServing(t, url).refused()
	if err == nil || !strings.Contains(err.Error(), "pool_mode = session") || exitStatus(err) != exitUnreachable {
		t.Errorf("serve: %v", err)
	}
	// Nothing was set for a session that others are handed.
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conn.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	next, err := pgx.ConnectConfig(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close(t.Context())
	var path string
	if err := next.QueryRow(t.Context(), `SHOW search_path`).Scan(&path); err != nil || strings.Contains(path, "pg_catalog") {
		t.Errorf("the next session has the search_path %q: %v", path, err)
	}
}
