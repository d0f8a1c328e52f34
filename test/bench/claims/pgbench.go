package main

import (
	"context"

	"webhook-gateway/test/bench/pgbench"
)

// Only the row that Claim inserts: random keys, growing ids, one commit each.
const insertScript = `\set n :n + 1
INSERT INTO agent.idempotency_keys
       (id, organization_id, scope, key, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)
VALUES (('00000000-0000-7000-8001-' || lpad(to_hex(:n::bigint * 256 + :client_id), 12, '0'))::uuid,
        :organization::uuid, 'webhook.nylas', :job::text || '/' || gen_random_uuid()::text, :hash, gen_random_uuid(),
        now(), now() + interval '30 seconds', now() + interval '1 day');
`

// pgbench measures PostgreSQL's own load program with this script.
func (b *bench) pgbench(ctx context.Context, clients int) (float64, error) {
	return pgbench.Run{
		Bin: b.bin.Dir, Dir: b.dir, URL: b.db.URL, Script: insertScript, Clients: clients, During: b.each,
		Variables: map[string]string{"n": "0", "hash": hashText, "organization": b.org.String(), "job": b.job.String()},
	}.Rate(ctx)
}
