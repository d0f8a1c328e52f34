package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// RightsSQL is statements that touch no row, and fail where the role lacks a right that ending a claim or a sweep needs.
const RightsSQL = `
	UPDATE agent.idempotency_keys SET status = status WHERE false;
	DELETE FROM agent.idempotency_keys WHERE false`

// MaxSweep is the maximum number of rows in one pass of a sweep. They stay locked until the pass ends.
const MaxSweep = 10_000

// MaxBacklog is the maximum that Backlog counts.
const MaxBacklog = 100_000

var errSweep = errors.New("idempotency: sweep bounds are invalid")

// now() and not clock_timestamp(): only a value that is stable in a statement can bound an index scan. The rows stay
// locked from the SELECT to the DELETE, so their ctid is still theirs. A row that was reclaimed or taken over meanwhile
// has another ctid, and the DELETE checks its new retention once more. Locked rows are skipped.
const sweepSQL = `
	WITH passed AS MATERIALIZED (
	  SELECT ctid
	    FROM agent.idempotency_keys
	   WHERE retain_until < now()
	   ORDER BY retain_until
	   LIMIT $1
	     FOR UPDATE SKIP LOCKED
	), gone AS (
	  DELETE FROM agent.idempotency_keys
	   WHERE ctid = ANY (ARRAY (SELECT ctid FROM passed)) AND retain_until < now()
	  RETURNING 1
	)
	SELECT (SELECT count(*) FROM passed), (SELECT count(*) FROM gone)`

// Sweep makes one pass: it deletes up to limit rows past their retention, the oldest first. read is the number of rows
// found, deleted the number that still existed. If read is less than limit, nothing is left except rows that other
// sweeps hold. It waits for no lock, and is safe beside any writer and other sweeps.
func (s *Service) Sweep(ctx context.Context, limit int) (read, deleted int, err error) {
	if limit < 1 || limit > MaxSweep {
		return 0, 0, fmt.Errorf("%w: limit %d is not between 1 and %d", errSweep, limit, MaxSweep)
	}
	rows, err := s.repo.db.Query(ctx, sweepSQL, limit)
	if err != nil {
		return 0, 0, fmt.Errorf("sweep keys: %w", explain(err))
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&read, &deleted); err != nil {
			return 0, 0, fmt.Errorf("sweep keys: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, 0, fmt.Errorf("sweep keys: %w", explain(err))
	}
	return read, deleted, nil
}

const backlogSQL = `
	SELECT count(*), coalesce(now() - min(retain_until), interval '0')
	  FROM (SELECT retain_until FROM agent.idempotency_keys WHERE retain_until < now() ORDER BY retain_until LIMIT $1) AS passed`

// Backlog is the number of rows that a sweep has yet to delete.
type Backlog struct {
	Rows   int           // counted up to MaxBacklog
	Oldest time.Duration // how far the oldest row is past its retention
}

// Backlog returns how far sweeping is behind.
func (s *Service) Backlog(ctx context.Context) (Backlog, error) {
	rows, err := s.repo.db.Query(ctx, backlogSQL, MaxBacklog)
	if err != nil {
		return Backlog{}, fmt.Errorf("count keys past retention: %w", err)
	}
	defer rows.Close()
	var b Backlog
	for rows.Next() {
		if err := rows.Scan(&b.Rows, &b.Oldest); err != nil {
			return Backlog{}, fmt.Errorf("count keys past retention: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return Backlog{}, fmt.Errorf("count keys past retention: %w", err)
	}
	return b, nil
}

// SweepOptions bound one run of a Sweeper.
type SweepOptions struct {
	Limit  int           // rows in a pass, at most MaxSweep; 1000 if zero
	Passes int           // in a run; 100 if zero
	Pause  time.Duration // between two passes
}

// Sweeper repeats passes until nothing is left, or its bounds are reached.
type Sweeper struct {
	keys    *Service
	options SweepOptions
	log     *slog.Logger
}

// NewSweeper refuses bounds that it cannot keep, instead of clamping them.
func NewSweeper(keys *Service, o SweepOptions, log *slog.Logger) (*Sweeper, error) {
	if o.Limit == 0 {
		o.Limit = 1000
	}
	if o.Passes == 0 {
		o.Passes = 100
	}
	if o.Limit < 1 || o.Limit > MaxSweep || o.Passes < 1 || o.Pause < 0 {
		return nil, fmt.Errorf("%w: limit %d (at most %d), passes %d, pause %s", errSweep, o.Limit, MaxSweep, o.Passes, o.Pause)
	}
	return &Sweeper{keys: keys, options: o, log: log}, nil
}

// Swept is the result of a run.
type Swept struct {
	Passes, Read, Deleted int
	// Full says that the last allowed pass still filled its limit: rows are left for the next run. If every run is
	// Full, sweeping does not keep up.
	Full bool
}

// Run sweeps until a pass reads less than its limit. A run that ends full logs one warning.
func (w *Sweeper) Run(ctx context.Context) (Swept, error) {
	var done Swept
	for {
		read, deleted, err := w.keys.Sweep(ctx, w.options.Limit)
		if err != nil {
			return done, err
		}
		done.Passes++
		done.Read += read
		done.Deleted += deleted
		if read < w.options.Limit {
			return done, nil
		}
		if done.Passes == w.options.Passes {
			break
		}
		select {
		case <-ctx.Done():
			return done, fmt.Errorf("sweep keys: %w", context.Cause(ctx))
		case <-time.After(w.options.Pause):
		}
	}
	done.Full = true
	w.log.WarnContext(ctx, "sweep of idempotency keys is behind", "passes", done.Passes, "read", done.Read, "deleted", done.Deleted)
	return done, nil
}
