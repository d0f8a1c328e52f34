package inbox

import (
	"context"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/sqlstate"
)

// settle gives every row its ending, or sends it on to be settled alone.
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
		b.settle(b.conclude(rows, verdicts))
	case isRefusal(err):
		b.settleRefused(rows, err)
	case isMissingDay(err) && b.makeDay():
		b.settle(rows)
	default:
		b.settleApart(rows, err)
	}
}

// settleRefused halves the rows until the one whose data PostgreSQL refuses stands alone. Its neighbours are unharmed.
func (b *Inbox) settleRefused(rows []*row, refusal error) {
	if err := b.probe(rows); err != nil {
		b.settleApart(rows, err)
		return
	}
	if len(rows) > 1 {
		b.settle(rows[:len(rows)/2])
		b.settle(rows[len(rows)/2:])
		return
	}
	if b.refuse(rows[0], refusal) {
		b.settle(rows)
	}
}

// settleApart settles rows beside the batches, after an error that says nothing of any of them.
func (b *Inbox) settleApart(rows []*row, err error) {
	b.log.Debug("batch not settled, its deliveries are settled alone", "deliveries", len(rows), "err", err)
	for _, r := range rows {
		r.entry.work.Troubled(err)
	}
	for _, together := range apart(rows) {
		b.later(together, false)
	}
}

// attempt runs one transaction under its own time limit: no caller's patience may cut a commit short.
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

// reconnect gives up every connection there is, for new ones: after a failover they may all lead to a server
// that is gone without a word, each good for one time-out, or to one that takes no writes any more, which
// would keep them for as long as they live. At most once in a while, because new ones may lead there too.
func (b *Inbox) reconnect() {
	b.connections.Lock()
	defer b.connections.Unlock()
	if time.Since(b.reconnected) >= reconnectEvery {
		b.pool.Reset()
		b.reconnected = time.Now()
	}
}

// conclude ends the rows that their verdicts decide. It returns those that turned out to be a mismatch,
// which are kept as drops by a transaction of their own before they end.
func (b *Inbox) conclude(rows []*row, verdicts []idempotency.Verdict) (again []*row) {
	for i, r := range rows {
		switch b.judge(r, verdicts[i]) {
		case toKeep:
			again = append(again, r)
		case toDecide:
			b.later([]*row{r}, true)
		}
	}
	return again
}

// judgement is what is left to do for a row after a transaction.
type judgement int

const (
	ended    judgement = iota
	toKeep             // it became a drop that must be written
	toDecide           // a batch cannot tell: it needs the claim that stands in its way examined
)

func (b *Inbox) judge(r *row, verdict idempotency.Verdict) judgement {
	if r.drop != nil {
		r.dropped(r.drop.Reason)
		return ended
	}
	if verdict != idempotency.Unsettled {
		b.metrics.claim(r.provider(), verdict)
	}
	switch verdict {
	case idempotency.Claimed:
		r.accept()
	case idempotency.Completed, idempotency.Processing:
		r.dropped(drops.Duplicate)
	case idempotency.Conflict:
		if b.keep(r, drops.HashMismatch, "the key was claimed with other content") {
			return toKeep
		}
	default:
		return toDecide
	}
	return ended
}

// refuse makes a delivery that PostgreSQL will not store a malformed drop: it is signed, so the vendor is
// told that it arrived. It reports whether there is a drop to write. A drop that is refused has failed.
func (b *Inbox) refuse(r *row, err error) bool {
	b.log.Warn("delivery refused by the database",
		"provider", r.provider(), "request_id", r.entry.work.Request.ID, "position", r.item.Position, "code", sqlstate.Of(err))
	if r.drop != nil {
		b.fail(r)
		return false
	}
	return b.keep(r, drops.Malformed, "the database refuses it: "+sqlstate.Of(err))
}

// makeDay makes the missing day of the inbox. It reports whether a repeat can succeed at once.
func (b *Inbox) makeDay() bool {
	ctx, cancel := context.WithTimeoutCause(b.running, roundTrip, errRoundTrip)
	defer cancel()
	made, err := b.partitions.Ensure(ctx)
	if err != nil {
		b.log.Error("inbox day not made", "err", err)
	}
	return made > 0
}
