package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.json("sweep") // makes the days
	c.exec(`INSERT INTO agent.idempotency_keys (id, organization_id, scope, key, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)
		SELECT gen_random_uuid(), $1, 'webhook.slack', 'k' || n, 'c1:00', gen_random_uuid(), now() - interval '9 days', now() - interval '9 days', now() + n * interval '1 day'
		  FROM unnest(ARRAY[-2, -1, 1]) AS n`, uuid.New())
	c.exec(`INSERT INTO agent.webhook_drops (id, reason, provider, verified_by, verifier_id, request_id, position, request_seed, received_at, stored_at)
		SELECT gen_random_uuid(), 'malformed', 'slack', 'source', gen_random_uuid(), gen_random_uuid(), 0, '', now(), now() - n * interval '1 day'
		  FROM unnest(ARRAY[15, 13]) AS n`)
	c.exec(`CREATE TABLE agent.webhook_deliveries_20200101 PARTITION OF agent.webhook_deliveries FOR VALUES FROM ('2020-01-01 UTC') TO ('2020-01-02 UTC')`)

	want := map[string]any{"swept": []any{
		map[string]any{"table": "idempotency_keys", "removed": 2.0, "backlog": 0.0},
		map[string]any{"table": "webhook_drops", "removed": 1.0, "backlog": 0.0},
		map[string]any{"table": "webhook_deliveries", "removed": 1.0, "backlog": 0.0},
	}}
	if diff := cmp.Diff(want, c.json("sweep")); diff != "" {
		t.Error(diff)
	}
	r := c.run("sweep")
	if r.status != exitOK || r.err != "" || strings.Count(r.stdout, "0 rows") != 4 || !strings.Contains(r.stdout, "0 days") {
		t.Errorf("status %d, stdout %q, stderr %q", r.status, r.stdout, r.err)
	}
}
