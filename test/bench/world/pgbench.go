package world

import (
	"context"
	"fmt"
	"time"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/pgbench"
)

// The two rows of a delivery, as all compared programs write them: the same columns of the same sizes, random keys,
// growing ids. The body travels with each transaction.
const (
	pgbenchClaim = `
INSERT INTO agent.idempotency_keys
       (id, organization_id, scope, key, request_hash, status, lease_token, resource_type, resource_id,
        claimed_at, lease_expires_at, retain_until)
VALUES (('00000000-0000-7000-8001-' || lpad(to_hex(:n::bigint * 256 + :client_id), 12, '0'))::uuid,
        :organization::uuid, 'webhook.nylas', :job::text || '/' || gen_random_uuid()::text, :hash, 'completed', gen_random_uuid(),
        'webhook_delivery', gen_random_uuid()::text, now(), now() + interval '30 seconds', now() + interval '1 day')
    ON CONFLICT (organization_id, scope, key) DO NOTHING;`
	pgbenchInsert = `
INSERT INTO agent.webhook_deliveries
       (id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers,
        content_type, content_encoding, body, ordering_key, received_at)
VALUES (('00000000-0000-7000-8001-' || lpad(to_hex(:n::bigint * 256 + :client_id), 12, '0'))::uuid,
        :organization::uuid, 'nylas', :job::uuid, :job::text || '/' || gen_random_uuid()::text, 'message.created', :hash,
        '[["user-agent","Nylas/1.0"]]', 'application/json', '', convert_to(:body, 'UTF8'), :job::text, now());`
)

func pgbenchScript(pipelined bool) string {
	// A broken connection rolls its transaction back, so the script needs no error handling.
	if pipelined {
		return "\\set n :n + 1\n\\startpipeline\nBEGIN;" + pgbenchClaim + pgbenchInsert + "\nCOMMIT;\n\\endpipeline\n"
	}
	return "\\set n :n + 1\nBEGIN;" + pgbenchClaim + pgbenchInsert + "\nCOMMIT;\n"
}

// Pgbench runs PostgreSQL's own load program, which inserts the two rows in each transaction, and returns the rate.
// Pipelined, the transaction is one round trip instead of four.
func (w *World) Pgbench(ctx context.Context, d *Database, clients int, pipelined bool, during time.Duration) (float64, error) {
	var body string
	err := load.Bodies(&load.Spec{
		Addresses: []string{""}, Application: Application, Tenants: w.Grants, Shape: load.Usual, Requests: 1, Secret: w.Secret,
	}, func(b []byte) error { body = string(b); return nil })
	if err != nil {
		return 0, err
	}
	tenant := d.Tenants[w.Grants[0]]
	return pgbench.Run{
		Bin: w.bin.Dir, Dir: w.Dir, URL: d.URL, Script: pgbenchScript(pipelined), Clients: clients, During: during,
		Variables: map[string]string{
			"n": "0", "body": body, "hash": "c1:" + fmt.Sprintf("%064d", 7),
			"organization": tenant.Organization.String(), "job": tenant.Job.String(),
		},
	}.Rate(ctx)
}
