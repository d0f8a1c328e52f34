package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/devdb"
	benchreport "webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

const (
	many     = 16 // workers at once
	lease    = 30 * time.Second
	hashText = "c1:0000000000000000000000000000000000000000000000000000000000000007"
)

// bench is one run.
type bench struct {
	options
	bin    devdb.Binaries
	db     *world.Database
	pool   *pgxpool.Pool
	keys   *idempotency.Service
	report report

	org, job uuid.UUID
	scope    idempotency.Scope
	hash     idempotency.Hash
}

func newBench(ctx context.Context, o options, w *world.World) (*bench, error) {
	b := &bench{options: o, org: uuid.New(), job: uuid.New(), report: report{Rounds: o.rounds, Each: o.each}}
	var err error
	if b.bin, err = devdb.Find(ctx); err != nil {
		return nil, err
	}
	if b.scope, err = idempotency.NewScopeFor("webhook.nylas", 24*time.Hour); err != nil {
		return nil, err
	}
	if b.hash, err = idempotency.ParseHash(hashText); err != nil {
		return nil, err
	}
	if b.db, err = w.Database(ctx, "claims"); err != nil {
		return nil, err
	}
	if b.report.Facts, err = w.Facts(ctx, b.db); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(b.db.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = many+4, many
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	b.keys = idempotency.MustService(b.pool, idempotency.Options{})
	// The effects of the claims of a transaction go here.
	if _, err = b.pool.Exec(ctx, `CREATE TABLE effects (id uuid NOT NULL)`); err != nil {
		return nil, fmt.Errorf("make the table of effects: %w", err)
	}
	return b, nil
}

// segment is one row of the table: what is measured once a round, as keys a second.
type segment struct {
	name    string
	known   bool // claims existing keys
	measure func(context.Context) (float64, error)
}

func (b *bench) segments() []segment {
	all := []segment{
		{insertOne, false, func(ctx context.Context) (float64, error) { return b.pgbench(ctx, 1) }},
		{insertMany, false, func(ctx context.Context) (float64, error) { return b.pgbench(ctx, many) }},
	}
	for _, known := range []bool{false, true} {
		word := "fresh"
		if known {
			word = "duplicate"
		}
		for _, workers := range []int{1, many} {
			all = append(all, segment{fmt.Sprintf("Claim, %s", words(workers, word)), known,
				func(ctx context.Context) (float64, error) { return b.work(ctx, workers, known, 1, b.claim) }})
		}
		for _, size := range sizes() {
			all = append(all,
				segment{fmt.Sprintf("ClaimMany of %d, %s", size, words(1, word)), known,
					func(ctx context.Context) (float64, error) { return b.work(ctx, 1, known, size, b.claimMany) }},
				segment{fmt.Sprintf("Effects of %d, %s", size, words(1, word)), known,
					func(ctx context.Context) (float64, error) { return b.work(ctx, 1, known, size, b.effects) }})
		}
	}
	return all
}

func sizes() []int { return []int{1, 16, 64, 256} }

func words(workers int, word string) string {
	if workers == 1 {
		return word + ", 1 worker"
	}
	return fmt.Sprintf("%s, %d workers", word, workers)
}

// rows measures the segments round after round.
func (b *bench) rows(ctx context.Context) error {
	all := b.segments()
	return benchreport.InTurn(b.rounds, len(all), func(_, i int) error {
		s := all[i]
		if err := b.reset(ctx, s.known); err != nil {
			return err
		}
		perSecond, err := s.measure(ctx)
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
		b.report.add(s.name, perSecond)
		fmt.Fprintf(os.Stderr, "%-36s %8.0f\n", s.name, perSecond)
		return nil
	})
}

// reset prepares a measurement: an empty table, or one with the keys that are claimed again.
func (b *bench) reset(ctx context.Context, known bool) error {
	if _, err := b.pool.Exec(ctx, `TRUNCATE effects`); err != nil {
		return fmt.Errorf("empty the table of effects: %w", err)
	}
	if err := b.db.Reset(ctx); err != nil || !known {
		return err
	}
	_, err := b.pool.Exec(ctx, `
		INSERT INTO agent.idempotency_keys
		       (id, organization_id, scope, key, request_hash, status, lease_token, resource_type, resource_id,
		        claimed_at, lease_expires_at, retain_until)
		SELECT gen_random_uuid(), $1, $2, $3::text || '/' || n, $4, 'completed', gen_random_uuid(), 'webhook_delivery', n::text,
		       now(), now() + interval '30 seconds', now() + interval '1 day'
		  FROM generate_series(0, $5::int - 1) AS n`, b.org, b.scope.String(), b.job.String(), hashText, b.options.known)
	if err == nil {
		_, err = b.pool.Exec(ctx, `VACUUM ANALYZE agent.idempotency_keys`)
	}
	if err != nil {
		return fmt.Errorf("fill in known keys: %w", err)
	}
	return b.db.Checkpoint(ctx)
}
