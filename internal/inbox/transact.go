package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/sqlstate"
)

// The statements are planned once a connection, whatever the arrays hold: a plan for each small batch would take
// a sixth of PostgreSQL's time for it. The bodies of a batch within the default bound stay in memory on their way, instead
// of in temporary files.
const (
	beginSQL    = `BEGIN ISOLATION LEVEL READ COMMITTED`
	settingsSQL = `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
	                      set_config('idle_in_transaction_session_timeout', $3, true),
	                      set_config('plan_cache_mode', 'force_generic_plan', true), set_config('work_mem', '64MB', true),
	                      ` + idempotency.DurableCommit
)

var errNotCommitted = errors.New("transaction was rolled back")

// transact writes the rows in one transaction and one round trip, COMMIT included. The verdicts are the
// rows', in their order; a drop's has no meaning. With an error nothing is known: the rows may be there.
func (b *Inbox) transact(ctx context.Context, rows []*row) ([]idempotency.Verdict, error) {
	batch := &pgx.Batch{}
	queueBegin(batch)
	verdicts, err := b.queueRows(batch, rows)
	if err != nil {
		return nil, err
	}
	queueCommit(batch)
	if err := b.send(ctx, batch); err != nil {
		return nil, fmt.Errorf("settle %d deliveries: %w", len(rows), err)
	}
	return verdicts(), nil
}

// queueRows adds the statements that write the rows. The verdicts are known once the batch was sent.
func (b *Inbox) queueRows(batch *pgx.Batch, rows []*row) (verdicts func() []idempotency.Verdict, err error) {
	var (
		items  = make([]idempotency.Item, 0, len(rows))
		inbox  = newColumns(len(rows))
		kept   []drops.Kept
		claims = make([]int, 0, len(rows)) // which row an item is of
	)
	for i, r := range rows {
		if r.drop != nil {
			kept = append(kept, *r.drop)
			continue
		}
		items = append(items, b.item(r))
		inbox.add(r, &items[len(items)-1])
		claims = append(claims, i)
	}
	var effects *idempotency.Effects
	if len(items) > 0 {
		if effects, err = b.keys.NewEffects(items, Lease); err != nil {
			return nil, fmt.Errorf("prepare %d claims: %w", len(items), err)
		}
		if err := effects.Queue(batch, insertClaimed, inbox.args()...); err != nil {
			return nil, err
		}
	}
	drops.Queue(batch, kept)
	return func() []idempotency.Verdict {
		all := make([]idempotency.Verdict, len(rows))
		if effects != nil {
			for i, v := range effects.Verdicts() {
				all[claims[i]] = v
			}
		}
		return all
	}, nil
}

func queueBegin(batch *pgx.Batch) {
	batch.Queue(beginSQL)
	batch.Queue(settingsSQL, millis(lockTimeout), millis(statementTimeout), millis(idleTimeout))
}

// queueCommit ends the batch. A COMMIT may answer ROLLBACK; that is no commit.
func queueCommit(batch *pgx.Batch) {
	batch.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errNotCommitted
		}
		return nil
	})
}

func (b *Inbox) send(ctx context.Context, batch *pgx.Batch) error {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	useArrays(conn.Conn().TypeMap())
	defer conn.Release() // closes a connection that was left inside a transaction
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		if sqlstate.Of(err) != "" {
			_, _ = conn.Exec(ctx, `ROLLBACK`)
		}
		return err
	}
	return idempotency.CheckReplicated(conn.Conn())
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }
