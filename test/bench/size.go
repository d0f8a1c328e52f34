package main

import (
	"context"
	"fmt"
	"os"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// million keys, at which the full database is measured beside one that is kept empty.
var steps = []int{1, 5, 20}

// sizes measures a gateway on a database that fills up beside one on a database that is empty. Both are on
// one server, and each pair of measurements is made in one round.
func (b *bench) sizes(ctx context.Context) error {
	full, err := b.world.Database(ctx, "full")
	if err != nil {
		return err
	}
	beside, err := b.world.Gateway(ctx, "gateway-full", full)
	if err != nil {
		return err
	}
	held := 0
	for _, million := range steps {
		if err := fill(ctx, full, held, million); err != nil {
			return err
		}
		held = million
		if err := b.sizeStep(ctx, full, beside, million); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sizeStep(ctx context.Context, full *world.Database, beside *world.Process, million int) error {
	empty, filled := report.SizeNames(million)
	var before int
	err := b.inTurn(ctx, b.rounds,
		segment{empty, func(ctx context.Context, s *report.Sample) error {
			return b.send(ctx, b.traffic(load.Usual, b.gateway), b.gateway, s)
		}},
		segment{filled, func(ctx context.Context, s *report.Sample) error {
			if _, err := full.Pool.Exec(ctx, `TRUNCATE agent.webhook_deliveries`); err != nil {
				return err
			}
			if err := full.Pool.QueryRow(ctx, `SELECT count(*) FROM agent.idempotency_keys`).Scan(&before); err != nil {
				return err
			}
			if err := b.watch(ctx, "load", b.traffic(load.Usual, beside), beside, s); err != nil {
				return err
			}
			rows, claimed, err := full.Kept(ctx)
			if err == nil && (rows != s.Result.AllOK || claimed-before != rows) {
				err = fmt.Errorf("%d deliveries were acknowledged, and there are %d rows with %d keys", s.Result.AllOK, rows, claimed-before)
			}
			return err
		}},
	)
	if err != nil {
		return err
	}
	size := report.Size{Million: million}
	err = full.Pool.QueryRow(ctx, `SELECT pg_table_size('agent.idempotency_keys'), pg_indexes_size('agent.idempotency_keys'),
		(SELECT count(*) FROM agent.idempotency_keys)`).Scan(&size.Table, &size.Indexes, &size.Rows)
	b.report.Sizes = append(b.report.Sizes, size)
	return err
}

// fill brings the keys from one number of millions to another, as deliveries of the last day, each with a
// vendor's id of its own, in the order of their time.
func fill(ctx context.Context, d *world.Database, from, to int) error {
	const each = 250_000
	tenants := make([][2]string, 0, len(d.Tenants))
	for _, t := range d.Tenants {
		tenants = append(tenants, [2]string{t.Organization.String(), t.Job.String()})
	}
	organizations, jobs := make([]string, len(tenants)), make([]string, len(tenants))
	for i, t := range tenants {
		organizations[i], jobs[i] = t[0], t[1]
	}
	for n := from * 1_000_000; n < to*1_000_000; n += each {
		_, err := d.Pool.Exec(ctx, `
			INSERT INTO agent.idempotency_keys
			       (id, organization_id, scope, key, request_hash, status, lease_token, resource_type, resource_id,
			        claimed_at, lease_expires_at, retain_until)
			SELECT ('00000000-0000-7000-8002-' || lpad(to_hex(n), 12, '0'))::uuid,
			       ($3::uuid[])[1 + n % cardinality($3)], 'webhook.nylas',
			       ($4::text[])[1 + n % cardinality($4)] || '/' || upper(left(md5(n::text), 28)),
			       'c1:' || md5('a' || n) || md5('b' || n), 'completed', gen_random_uuid(), 'webhook_delivery',
			       ('00000000-0000-7000-8003-' || lpad(to_hex(n), 12, '0')),
			       t.at, t.at + interval '30 seconds', t.at + interval '1 day'
			  FROM generate_series($1::bigint, $2::bigint) AS n,
			       LATERAL (SELECT now() - interval '12 hours' + n * interval '2 milliseconds' AS at) AS t`,
			n, n+each-1, organizations, jobs)
		if err != nil {
			return fmt.Errorf("fill the keys: %w", err)
		}
		fmt.Fprintf(os.Stderr, "%.2f million keys\n", float64(n+each)/1e6)
	}
	_, err := d.Pool.Exec(ctx, `VACUUM ANALYZE agent.idempotency_keys`)
	return err
}
