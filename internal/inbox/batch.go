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
	"webhook-gateway/providers"
)

// This file is the way of a delivery from the queue through one transaction to its ending, in the order in which it
// happens. What a batch cannot settle goes to alone.go; data that PostgreSQL refuses goes to refused.go.

// Settle implements providers.Settler.
func (b *Inbox) Settle(work *providers.Work, done func([]providers.Ending)) error {
	e := &entry{
		work:    work,
		done:    done,
		bytes:   sizeOf(work),
		queue:   b.queue,
		endings: make([]providers.Ending, len(work.Items)),
		open:    len(work.Items),
	}
	if !b.queue.put(e) {
		return providers.ErrOverloaded
	}
	return nil
}

// commitBatches settles one batch after another, until the queue is closed and empty.
func (b *Inbox) commitBatches() {
	for {
		entries := b.queue.take(b.options.BatchDeliveries, b.options.BatchBytes)
		if entries == nil {
			return
		}
		b.settle(b.rowsOf(entries))
		b.queue.finished()
	}
}

// rowsOf lists the deliveries of the entries. One that comes too late, or that is dropped without a row,
// ends here.
func (b *Inbox) rowsOf(entries []*entry) []*row {
	n := 0
	for _, e := range entries {
		n += len(e.work.Items)
	}
	rows := make([]*row, 0, n)
	for _, e := range entries {
		late := !time.Now().Before(e.work.Deadline) // without an attempt, it has certainly failed
		for i := range e.work.Items {
			r := newRow(e, i)
			switch {
			case late:
				b.fail(r)
			case r.item.Reason == "":
				if b.parseHash(r) {
					rows = append(rows, r)
				}
			case b.keepDrop(r, r.item.Reason, r.item.Detail):
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// settle gives every row its ending in one transaction, or sends it on to be settled in another way.
func (b *Inbox) settle(rows []*row) {
	if len(rows) == 0 {
		return
	}
	verdicts, err := b.attempt(func(ctx context.Context) ([]idempotency.Verdict, error) {
		return b.transact(ctx, rows)
	})
	switch {
	case err == nil:
		b.metrics.batch.Observe(float64(len(rows)))
		mismatched, undecided := b.end(rows, verdicts)
		for _, r := range undecided {
			b.startAlone([]*row{r}, true)
		}
		b.settle(mismatched)
	case isRefusal(err):
		b.settleRefused(rows, err)
	case isMissingDay(err) && b.makeDay():
		b.settle(rows)
	default:
		b.settleEachAlone(rows, err)
	}
}

// attempt runs one transaction under its own time limit: no caller's deadline may cut a commit short.
func (b *Inbox) attempt(transact func(context.Context) ([]idempotency.Verdict, error)) ([]idempotency.Verdict, error) {
	ctx, cancel := context.WithTimeoutCause(b.running, roundTrip, errRoundTrip)
	defer cancel()
	started := time.Now()
	verdicts, err := transact(ctx)
	b.metrics.duration.Observe(time.Since(started).Seconds())
	if err != nil && (ctx.Err() != nil || isReadOnly(err)) {
		b.reconnect()
	}
	return verdicts, err
}

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

// transact writes the rows in one transaction and one round trip, COMMIT included. The verdicts are in the order of
// the rows; that of a drop has no meaning. After an error the rows may be committed or not.
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

func queueBegin(batch *pgx.Batch) {
	batch.Queue(beginSQL)
	batch.Queue(settingsSQL, millis(lockTimeout), millis(statementTimeout), millis(idleTimeout))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// queueRows adds the statements that write the rows: first the claims with their inbox rows, then the kept drops. The
// verdicts are known once the batch was sent.
func (b *Inbox) queueRows(batch *pgx.Batch, rows []*row) (verdicts func() []idempotency.Verdict, err error) {
	var (
		items  = make([]idempotency.Item, 0, len(rows))
		inbox  = newColumns(len(rows))
		kept   []drops.Kept
		claims = make([]int, 0, len(rows)) // the index of each item's row
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

// queueCommit ends the batch. PostgreSQL may answer COMMIT with ROLLBACK: then nothing is committed.
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

// end gives rows the endings that a committed transaction decided. The others need one more transaction: mismatched
// rows became drops to be written, and for undecided ones the claim in their way must be examined.
func (b *Inbox) end(rows []*row, verdicts []idempotency.Verdict) (mismatched, undecided []*row) {
	for i, r := range rows {
		ending, decided := b.judge(r, verdicts[i])
		switch {
		case !decided:
			undecided = append(undecided, r)
		case r.drop == nil && ending.Dropped == drops.HashMismatch:
			if b.keepDrop(r, ending.Dropped, "the key was claimed with other content") {
				mismatched = append(mismatched, r)
			}
		default:
			r.end(ending)
		}
	}
	return mismatched, undecided
}

// judge returns the ending of a row after its transaction; decided is false when a batch cannot tell.
func (b *Inbox) judge(r *row, verdict idempotency.Verdict) (ending providers.Ending, decided bool) {
	if r.drop != nil {
		return providers.Ending{Dropped: r.drop.Reason}, true
	}
	switch verdict {
	case idempotency.Claimed:
	case idempotency.Completed, idempotency.Processing:
		ending.Dropped = drops.Duplicate
	case idempotency.Conflict:
		ending.Dropped = drops.HashMismatch
	default:
		return ending, false
	}
	b.metrics.claim(r.provider(), verdict)
	return ending, true
}
