package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"webhook-gateway/idempotency"
)

const (
	expiries   = 1000 // a second
	ingest     = 1000 // claims a second
	ingestSize = 50   // in one ClaimMany
)

// sweepReport shows how far behind the sweep was, second by second.
type sweepReport struct {
	For         time.Duration `json:"for"`
	Expired     int           `json:"expired"`
	Deleted     int           `json:"deleted"`
	Runs        int           `json:"runs"`
	Full        int           `json:"full"`    // runs that left rows for the next one
	Longest     time.Duration `json:"longest"` // of the runs
	Claimed     int           `json:"claimed"`
	Behind      []int         `json:"behind"` // rows past their retention, each second, before the sweep
	After       []int         `json:"after"`  // and after it
	OldestAfter time.Duration `json:"oldest_after"`
}

// watchSweep lets keys pass their retention at a fixed rate, sweeps every second, and meanwhile claims fresh keys at
// a fixed rate.
func (b *bench) watchSweep(ctx context.Context) error {
	if err := b.reset(ctx, false); err != nil {
		return err
	}
	seconds := int(b.sweep.Seconds())
	_, err := b.pool.Exec(ctx, `
		INSERT INTO agent.idempotency_keys
		       (id, organization_id, scope, key, request_hash, status, lease_token, resource_type, resource_id,
		        claimed_at, lease_expires_at, retain_until)
		SELECT gen_random_uuid(), $1, $2, $3::text || '/' || gen_random_uuid(), $4, 'completed', gen_random_uuid(),
		       'webhook_delivery', n::text, t.now, t.now, t.now + n * interval '1 second' / $6::int
		  FROM generate_series(1, $5::int) AS n, clock_timestamp() AS t(now)`,
		b.org, b.scope.String(), b.job.String(), hashText, expiries*(seconds+60), expiries)
	if err != nil {
		return fmt.Errorf("fill in keys that expire: %w", err)
	}
	// The sweep is not measured with the keys that expired while they were filled in.
	if _, err := b.pool.Exec(ctx, `DELETE FROM agent.idempotency_keys WHERE retain_until < now()`); err != nil {
		return err
	}
	if err := b.db.Checkpoint(ctx); err != nil {
		return err
	}
	for read := idempotency.MaxSweep; read == idempotency.MaxSweep; {
		if read, _, err = b.keys.Sweep(ctx, idempotency.MaxSweep); err != nil {
			return err
		}
	}
	within, stop := context.WithTimeout(ctx, b.sweep)
	defer stop()
	r := sweepReport{For: b.sweep}
	var group errgroup.Group
	group.Go(func() error { return b.ingest(ctx, within.Done(), &r) })
	group.Go(func() error { return b.sweepOn(ctx, within.Done(), &r) })
	if err := group.Wait(); err != nil {
		return err
	}
	b.report.Sweep = r
	return context.Cause(ctx) // an interrupted run was not measured to its end
}

// ingest claims fresh keys at its rate, and catches up after a pause.
func (b *bench) ingest(ctx context.Context, done <-chan struct{}, r *sweepReport) error {
	tick := time.NewTicker(time.Second * ingestSize / ingest / 2)
	defer tick.Stop()
	for started := time.Now(); ; {
		select {
		case <-done:
			return nil
		case <-tick.C:
		}
		for float64(r.Claimed+ingestSize) <= time.Since(started).Seconds()*ingest {
			kinds, err := b.claimMany(ctx, b.refs(false, 0, ingestSize))
			if err == nil {
				err = expect(kinds, false, ingestSize)
			}
			if err != nil {
				return err
			}
			r.Claimed += ingestSize
		}
	}
}

// sweepOn runs the sweeper every second, with its default limits.
func (b *bench) sweepOn(ctx context.Context, done <-chan struct{}, r *sweepReport) error {
	sweeper, err := idempotency.NewSweeper(b.keys, idempotency.SweepOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			r.Expired = r.Deleted
			if n := len(r.After); n > 0 {
				r.Expired += r.After[n-1]
			}
			return nil
		case <-tick.C:
		}
		before, err := b.keys.Backlog(ctx)
		if err != nil {
			return err
		}
		started := time.Now()
		swept, err := sweeper.Run(ctx)
		if err != nil {
			return err
		}
		r.Longest = max(r.Longest, time.Since(started))
		after, err := b.keys.Backlog(ctx)
		if err != nil {
			return err
		}
		r.Runs++
		r.Deleted += swept.Deleted
		if swept.Full {
			r.Full++
		}
		r.Behind, r.After = append(r.Behind, before.Rows), append(r.After, after.Rows)
		r.OldestAfter = max(r.OldestAfter, after.Oldest)
	}
}
