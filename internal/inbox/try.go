package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// The rights that settling alone and the sweep need beyond those of a batch. No row is touched.
const rightsSQL = idempotency.RightsSQL + `;` + drops.RightsSQL

const strangeDaysSQL = `
	SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	 WHERE i.inhparent = 'agent.webhook_deliveries'::regclass AND NOT pg_has_role(c.relowner, 'USAGE')`

// Try does to the database what a gateway does, and takes it back: it stores a delivery and a drop of the vendor,
// changes and removes rows as the sweep does, and makes a day of the inbox. The error joins everything that
// cannot be done.
func Try(ctx context.Context, pool *pgxpool.Pool, vendor providers.Provider) error {
	var problems []error
	if err := trySettle(ctx, pool, vendor); err != nil {
		problems = append(problems, fmt.Errorf("a delivery cannot be stored: %w", err))
	}
	if err := rolledBack(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, rightsSQL)
		return err
	}); err != nil {
		problems = append(problems, fmt.Errorf("rows cannot be changed and removed: %w", err))
	}
	if err := tryDay(ctx, pool); err != nil {
		problems = append(problems, fmt.Errorf("the inbox's days cannot be made: %w", err))
	}
	var strange int
	if err := pool.QueryRow(ctx, strangeDaysSQL).Scan(&strange); err != nil {
		problems = append(problems, fmt.Errorf("list the inbox's days: %w", err))
	} else if strange > 0 {
		problems = append(problems, fmt.Errorf("%d days of the inbox belong to another role, and cannot be removed once they are past", strange))
	}
	return errors.Join(problems...)
}

func trySettle(ctx context.Context, pool *pgxpool.Pool, vendor providers.Provider) error {
	scopes, err := Scopes([]providers.Provider{vendor})
	if err != nil {
		return err
	}
	keys, err := idempotency.NewService(pool, idempotency.Options{})
	if err != nil {
		return err
	}
	b := &Inbox{pool: pool, keys: keys, limiter: drops.NewLimiter(), scopes: scopes}
	like := newRow(&entry{work: &providers.Work{
		Request: &providers.Request{Provider: vendor.Name(), VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: uuid.New()}},
		Items:   []providers.Item{{Job: uuid.New(), Organization: uuid.New()}},
	}}, 0)
	good, dropped := knownGood(like), knownGood(like)
	b.keepDrop(dropped, drops.UnknownJob, "")
	until, err := NewPartitions(pool).Until(ctx)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	queueBegin(batch)
	if today := time.Now().UTC(); !until.After(today) { // as serve would
		for _, sql := range daySQL(today) {
			batch.Queue(sql)
		}
	}
	if _, err := b.queueRows(batch, []*row{good, dropped}); err != nil {
		return err
	}
	batch.Queue(`ROLLBACK`)
	return b.send(ctx, batch)
}

// A day that no gateway makes.
const farDays = 400

func tryDay(ctx context.Context, pool *pgxpool.Pool) (err error) {
	for range 3 { // another process may hold the table for a moment
		err = rolledBack(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
				return err
			}
			return createDay(ctx, tx, time.Now().UTC().AddDate(0, 0, farDays))
		})
		if !isLockTimeout(err) {
			return err
		}
	}
	return err
}

func rolledBack(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return do(tx)
}
