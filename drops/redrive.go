package drops

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The longest By and Why, in bytes.
const (
	MaxBy  = 200
	MaxWhy = 1000
)

// Redrive is one redrive of a kept drop: a row of agent.webhook_redrives.
type Redrive struct {
	Drop    uuid.UUID
	At      time.Time // when it was begun, on the database's clock
	By      string
	Why     string
	Outcome Outcome
	Detail  string
	// Delivery is the row of the inbox that the drop became. Zero: none, or several.
	Delivery uuid.UUID
}

// Outcome is how a redrive ended: Accepted, Failed, or the Reason for which the delivery was dropped again. Empty: it
// was begun, and its end was not recorded.
type Outcome string

// The outcomes that are not a Reason.
const (
	Accepted Outcome = "accepted"
	Failed   Outcome = "failed"
)

// Settled reports whether the delivery is in the inbox: there is nothing left to redrive.
func (o Outcome) Settled() bool { return o == Accepted || o == Outcome(Duplicate) }

// BeginRedrives records who begins to redrive the drops, and why, before anything is done. It returns the instant that
// names this attempt to EndRedrives. A drop that was swept meanwhile is left out.
func (s *Store) BeginRedrives(ctx context.Context, ids []uuid.UUID, by, why string) (time.Time, error) {
	const sql = `
WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at),
begun AS (
  INSERT INTO agent.webhook_redrives (drop_id, redriven_at, redriven_by, why)
  SELECT d.id, now.at, $2, $3 FROM now, agent.webhook_drops d WHERE d.id = ANY ($1)
)
SELECT at FROM now`
	var at time.Time
	if err := s.pool.QueryRow(ctx, sql, ids, by, why).Scan(&at); err != nil {
		return at, fmt.Errorf("record %d redrives: %w", len(ids), err)
	}
	return at, nil
}

// EndRedrives records how the attempt that was begun at that instant ended. It reads the drop, the outcome, the detail
// and the delivery of each Redrive. When two attempts at once store one delivery, each is told Accepted: the second to
// be recorded becomes a duplicate, in ended too.
func (s *Store) EndRedrives(ctx context.Context, at time.Time, ended []Redrive) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := yieldToFirst(ctx, tx, at, ended); err != nil {
			return err
		}
		const sql = `
UPDATE agent.webhook_redrives r
   SET outcome = e.outcome, detail = e.detail, delivery_id = nullif(e.delivery_id, $6)
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::uuid[]) AS e(drop_id, outcome, detail, delivery_id)
 WHERE r.drop_id = e.drop_id AND r.redriven_at = $1`
		n := len(ended)
		drops, deliveries := make([]uuid.UUID, n), make([]uuid.UUID, n)
		outcomes, details := make([]string, n), make([]string, n)
		for i, r := range ended {
			drops[i], outcomes[i], details[i], deliveries[i] = r.Drop, string(r.Outcome), cut(r.Detail, maxDetail), r.Delivery
		}
		_, err := tx.Exec(ctx, sql, at, drops, outcomes, details, deliveries, uuid.Nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("record how %d redrives ended: %w", len(ended), err)
	}
	return nil
}

// yieldToFirst waits until other attempts at the same drops are recorded, and makes duplicates of those that another
// attempt was accepted for. Its second statement sees what the first has waited for.
func yieldToFirst(ctx context.Context, tx pgx.Tx, at time.Time, ended []Redrive) error {
	const lock = `
SELECT FROM agent.webhook_redrives WHERE drop_id = ANY ($1) ORDER BY drop_id, redriven_at FOR UPDATE`
	const first = `
SELECT drop_id, coalesce(delivery_id, $3) FROM agent.webhook_redrives
 WHERE drop_id = ANY ($1) AND redriven_at <> $2 AND outcome = 'accepted'`
	accepted := make(map[uuid.UUID]*Redrive)
	ids := []uuid.UUID{}
	for i := range ended {
		if r := &ended[i]; r.Outcome == Accepted {
			accepted[r.Drop] = r
			ids = append(ids, r.Drop)
		}
	}
	if _, err := tx.Exec(ctx, lock, ids); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, first, ids, at, uuid.Nil)
	if err != nil {
		return err
	}
	var drop, delivery uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&drop, &delivery}, func() error {
		r := accepted[drop]
		r.Outcome, r.Detail, r.Delivery = Outcome(Duplicate), "another redrive has stored it at the same time", uuid.Nil
		if delivery != uuid.Nil {
			r.Detail += ", as " + delivery.String()
		}
		return nil
	})
	return err
}

// Redrives returns the redrives of the drops, by drop, the oldest first.
func (s *Store) Redrives(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID][]Redrive, error) {
	const sql = `
SELECT drop_id, redriven_at, redriven_by, why, coalesce(outcome, ''), detail, delivery_id
  FROM agent.webhook_redrives
 WHERE drop_id = ANY ($1)
 ORDER BY drop_id, redriven_at`
	rows, err := s.pool.Query(ctx, sql, ids)
	if err != nil {
		return nil, fmt.Errorf("list redrives: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Redrive, error) {
		var r Redrive
		var delivery *uuid.UUID
		err := row.Scan(&r.Drop, &r.At, &r.By, &r.Why, &r.Outcome, &r.Detail, &delivery)
		r.Delivery = value(delivery)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list redrives: %w", err)
	}
	byDrop := make(map[uuid.UUID][]Redrive)
	for _, r := range list {
		byDrop[r.Drop] = append(byDrop[r.Drop], r)
	}
	return byDrop, nil
}

// SweepRedrives deletes up to limit redrives, the oldest first, that were begun longer ago than retention. It returns how
// many, and waits for no lock.
func (s *Store) SweepRedrives(ctx context.Context, retention time.Duration, limit int) (deleted int, err error) {
	const sql = `
DELETE FROM agent.webhook_redrives
 WHERE ctid = ANY (ARRAY (SELECT ctid
                            FROM agent.webhook_redrives
                           WHERE redriven_at < now() - $1::interval
                           ORDER BY redriven_at
                           LIMIT $2
                             FOR UPDATE SKIP LOCKED))`
	if retention <= 0 {
		return 0, fmt.Errorf("sweep redrives: %w", errRetention)
	}
	tag, err := s.pool.Exec(ctx, sql, retention, limit)
	if err != nil {
		return 0, fmt.Errorf("sweep redrives: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
