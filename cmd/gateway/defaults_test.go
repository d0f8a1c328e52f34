package main

import (
	"fmt"
	"net/url"
	"path"
	"testing"
	"time"

	"webhook-gateway/internal/pgtest"
)

// setDefaults gives a database the defaults of a session.
func setDefaults(t *testing.T, database string, settings ...string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		execOn(t, database, fmt.Sprintf("ALTER DATABASE %s SET %s", path.Base(u.Path), s))
	}
}

func TestDatabaseDefaultsIgnored(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"WIN1252", "EUC_JP", "LATIN1"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			database := pgtest.New(t)
			before := startGatewayOn(t, database)
			slackTown(before)
			event := slackEvent("T1", "Ev1-Grüße-漢字-€", "“Grüße” 漢字 €")
			const source = "/webhooks/slack/sources/main"
			setDefaults(t, database, "client_encoding = '"+encoding+"'", "standard_conforming_strings = off", "TimeZone = 'America/New_York'",
				"DateStyle = 'German'", "IntervalStyle = 'iso_8601'", "bytea_output = 'escape'", "extra_float_digits = -15",
				"search_path = public", "session_replication_role = replica", "default_transaction_isolation = 'serializable'",
				"synchronous_commit = off", "lock_timeout = 1", "enable_indexscan = off", "plan_cache_mode = 'force_custom_plan'")
			after := startGatewayOn(t, database)
			after.ack(after.postSlack(source, slackSecret, event))
			before.ack(before.postSlack(source, slackSecret, event)) // a repeat, at the gateway of before

			after.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries WHERE body = convert_to($1, 'UTF8') AND delivery_key LIKE '%/Ev1-Grüße-漢字-€'`, event)
			if accepted, duplicates := after.metric(`gateway_deliveries_accepted_total{provider="slack"}`),
				before.metric(`gateway_deliveries_dropped_total{provider="slack",reason="duplicate"}`); accepted != 1 || duplicates != 1 {
				t.Errorf("%v accepted and %v duplicates, want one each", accepted, duplicates)
			}

			// A change by a command is seen by both.
			c := cliFor(t, database, testKey)
			jobs := c.json("jobs", "list")["jobs"].([]any)
			for _, job := range jobs {
				c.json("jobs", "close", job.(map[string]any)["id"].(string))
			}
			for i, r := range []*running{before, after} {
				name := `gateway_deliveries_dropped_total{provider="slack",reason="unknown_job"}`
				deadline := time.Now().Add(20 * time.Second) // everything is read anew after a minute, and a change within a second
				for n := 0; r.metric(name) == 0; n++ {
					if time.Now().After(deadline) {
						t.Fatal("a closed job still takes deliveries")
					}
					r.ack(r.postSlack(source, slackSecret, slackEvent("T1", fmt.Sprintf("Ev2-%d-%d", i, n), "hi")))
				}
			}
			// Days that are past retention go.
			execOn(t, database, `CREATE TABLE agent.webhook_deliveries_20250101 PARTITION OF agent.webhook_deliveries FOR VALUES FROM ('2025-01-01 00:00:00+00') TO ('2025-01-02 00:00:00+00')`)
			c.json("sweep")
			after.wantCount(0, `SELECT count(*) FROM pg_class WHERE relname = 'webhook_deliveries_20250101'`)
		})
	}
}
