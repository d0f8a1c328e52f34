package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// sizes compares a gateway on a database that fills up with one on an empty database. Both databases are on one
// server, and each pair is measured in one round.
func (b *bench) sizes(ctx context.Context) error {
	full, err := b.world.Database(ctx, "full")
	if err != nil {
		return err
	}
	onFull, err := b.world.Gateway(ctx, "gateway-full", full)
	if err != nil {
		return err
	}
	held := 0
	for text := range strings.SplitSeq(b.millions, ",") {
		million, err := strconv.Atoi(text)
		if err != nil || million <= held {
			return fmt.Errorf("%q: write growing numbers of millions, with commas between", b.millions)
		}
		if err := fill(ctx, full, held, million); err != nil {
			return err
		}
		held = million
		if err := b.sizeStep(ctx, full, onFull, million); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sizeStep(ctx context.Context, full *world.Database, onFull *world.Process, million int) error {
	empty, filled, compressed := report.SizeNames(million)
	err := b.inTurn(ctx, b.rounds,
		segment{empty, func(ctx context.Context, s *report.Sample) error {
			return b.send(ctx, b.traffic(load.Usual, b.gateway), b.gateway, s)
		}},
		segment{filled, func(ctx context.Context, s *report.Sample) error { return b.sendFull(ctx, full, onFull, s) }},
		segment{compressed, func(ctx context.Context, s *report.Sample) error {
			if err := full.Set(ctx, "wal_compression", "lz4"); err != nil {
				return err
			}
			if err := b.sendFull(ctx, full, onFull, s); err != nil {
				return err
			}
			return full.Set(ctx, "wal_compression", "off")
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

// sendFull runs the usual load on the full database, and checks that every 200 has its row and key.
func (b *bench) sendFull(ctx context.Context, full *world.Database, onFull *world.Process, s *report.Sample) error {
	if _, err := full.Pool.Exec(ctx, `TRUNCATE agent.webhook_deliveries`); err != nil {
		return err
	}
	_, before, err := full.Kept(ctx)
	if err != nil {
		return err
	}
	if err := full.Checkpoint(ctx); err != nil {
		return err
	}
	if err := b.watch(ctx, "load", b.traffic(load.Usual, onFull), onFull, s); err != nil {
		return err
	}
	rows, claimed, err := full.Kept(ctx)
	if err == nil && (rows != s.Result.AllOK || claimed-before != rows) {
		err = fmt.Errorf("%d deliveries were acknowledged, and there are %d rows with %d keys", s.Result.AllOK, rows, claimed-before)
	}
	return err
}

// The indexes are rebuilt after each filling, which takes a fraction of the time. The fillfactor leaves them as full
// as keys in random order would.
const (
	dropIndexes = `
		ALTER TABLE agent.idempotency_keys DROP CONSTRAINT idempotency_keys_pkey, DROP CONSTRAINT idempotency_keys_key;
		DROP INDEX agent.idempotency_keys_retain;`
	makeIndexes = `
		SET maintenance_work_mem = '1GB';
		ALTER TABLE agent.idempotency_keys
		  ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (id),
		  ADD CONSTRAINT idempotency_keys_key UNIQUE (organization_id, scope, key) WITH (fillfactor = 70);
		CREATE INDEX idempotency_keys_retain ON agent.idempotency_keys (retain_until);
		ALTER INDEX agent.idempotency_keys_key RESET (fillfactor);
		RESET maintenance_work_mem;`
)

// fill grows the keys from one number of millions to another. They are like deliveries of the last half day, each
// with its own vendor's id, in the order of their time.
func fill(ctx context.Context, d *world.Database, from, to int) error {
	const each = 250_000
	var organizations, jobs []string
	for _, t := range d.Tenants {
		organizations, jobs = append(organizations, t.Organization.String()), append(jobs, t.Job.String())
	}
	if _, err := d.Pool.Exec(ctx, dropIndexes); err != nil {
		return fmt.Errorf("drop the indexes: %w", err)
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
	for _, sql := range []string{makeIndexes, `VACUUM ANALYZE agent.idempotency_keys`} {
		if _, err := d.Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make the indexes: %w", err)
		}
	}
	return nil
}
