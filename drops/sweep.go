package drops

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RightsSQL is statements that touch no row, and fail where the role lacks a right that a sweep needs.
const RightsSQL = `
	SELECT FROM agent.webhook_drops WHERE false FOR UPDATE;
	DELETE FROM agent.webhook_drops WHERE false;
	SELECT FROM agent.webhook_redrives WHERE false FOR UPDATE;
	DELETE FROM agent.webhook_redrives WHERE false`

// MaxSweep is the most rows that one pass of a sweep deletes.
const MaxSweep = 10_000

// MaxBacklog is how far Backlog counts.
const MaxBacklog = 100_000

var errRetention = errors.New("retention must be positive")

// now() and not clock_timestamp(): only a stable function can bound an index scan. The rows stay locked from the SELECT to
// the DELETE, so their ctid does not change. Of equally old rows those with a body are deleted last: otherwise a row could
// outlive the one that holds its body. Rows that another sweep has locked are skipped.
const sweepSQL = `
WITH passed AS MATERIALIZED (
  SELECT ctid
    FROM agent.webhook_drops
   WHERE stored_at < now() - $1::interval
   ORDER BY stored_at, body IS NOT NULL
   LIMIT $2
     FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM agent.webhook_drops
   WHERE ctid = ANY (ARRAY (SELECT ctid FROM passed))
  RETURNING 1
)
SELECT (SELECT count(*) FROM passed), (SELECT count(*) FROM gone)`

// Sweep makes one pass: it deletes up to limit drops, the oldest first, that were stored longer ago than retention. It
// returns how many it read and deleted; fewer read than limit means that only rows locked by another sweep are left. It
// waits for no lock and may run beside writers and other sweeps.
func (s *Store) Sweep(ctx context.Context, retention time.Duration, limit int) (read, deleted int, err error) {
	if retention <= 0 {
		return 0, 0, fmt.Errorf("sweep drops: %w", errRetention)
	}
	if limit < 1 || limit > MaxSweep {
		return 0, 0, fmt.Errorf("sweep drops: limit %d is not between 1 and %d", limit, MaxSweep)
	}
	if err := s.pool.QueryRow(ctx, sweepSQL, retention, limit).Scan(&read, &deleted); err != nil {
		return 0, 0, fmt.Errorf("sweep drops: %w", err)
	}
	return read, deleted, nil
}

const backlogSQL = `
SELECT count(*)
  FROM (SELECT FROM agent.webhook_drops WHERE stored_at < now() - $1::interval LIMIT $2) passed`

// Backlog counts the drops that are past retention and not deleted yet, up to MaxBacklog.
func (s *Store) Backlog(ctx context.Context, retention time.Duration) (int, error) {
	if retention <= 0 {
		return 0, fmt.Errorf("count drops past retention: %w", errRetention)
	}
	var n int
	if err := s.pool.QueryRow(ctx, backlogSQL, retention, MaxBacklog).Scan(&n); err != nil {
		return 0, fmt.Errorf("count drops past retention: %w", err)
	}
	return n, nil
}
