package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

// How long to wait before the next attempt at a delivery that got no answer.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// apart says which rows are settled together once they are settled beside the batches: each claim alone, and
// the drops of one request as one, because each transaction that keeps some of them keeps the request.
func apart(rows []*row) [][]*row {
	groups := make([][]*row, 0, len(rows))
	ofRequest := make(map[*entry]int)
	for _, r := range rows {
		if r.drop == nil {
			groups = append(groups, []*row{r})
			continue
		}
		i, ok := ofRequest[r.entry]
		if !ok {
			i = len(groups)
			ofRequest[r.entry] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// later settles a delivery, or the drops of one request, beside the batches: what it waits for must not hold
// up others. decide says that a claim stands in its way which only the plane's full form can judge.
func (b *Inbox) later(rows []*row, decide bool) {
	b.straggling.Go(func() { b.settleAlone(rows, decide) })
}

// settleAlone repeats until the rows have their endings or their deadline is over.
func (b *Inbox) settleAlone(rows []*row, decide bool) {
	ctx, cancel := context.WithDeadline(b.running, rows[0].entry.work.Deadline)
	defer cancel()
	var err error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case b.alone <- struct{}{}:
			var again bool
			for again = true; again; {
				again, decide, err = b.tryAlone(rows, decide)
			}
			<-b.alone
			if err == nil {
				return
			}
			rows[0].entry.work.Troubled(err)
		case <-ctx.Done():
			b.giveUp(rows)
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			b.giveUp(rows)
			return
		}
	}
}

// tryAlone makes one attempt. again: something was learnt, and the next attempt differs; otherwise the rows
// have ended or are on their way elsewhere, or there is an error that time may mend.
func (b *Inbox) tryAlone(rows []*row, decide bool) (again, decideNext bool, err error) {
	first := rows[0] // of a claim there is no other
	verdicts, err := b.attempt(func(ctx context.Context) ([]idempotency.Verdict, error) {
		if decide && first.drop == nil {
			return b.decide(ctx, first)
		}
		return b.transact(ctx, rows)
	})
	switch {
	case err == nil:
		judged := ended
		for i, r := range rows {
			judged = b.judge(r, verdicts[i])
		}
		return judged != ended, judged == toDecide, nil
	case isRefusal(err) && decide && first.drop == nil:
		// The delivery's data stands in the insert of a batch as well. What an update alone refuses is a fault of ours.
		b.metrics.faults.Inc()
		return false, decide, fmt.Errorf("PostgreSQL refuses to take a key over: %w", err)
	case isRefusal(err):
		return false, decide, b.refusedAlone(rows, err)
	case isMissingDay(err) && b.makeDay():
		return true, decide, nil
	}
	return false, decide, err
}

// refusedAlone sends rows whose data PostgreSQL refuses on their way: each half by itself, a single one as a malformed
// drop. An error says that the data may not be at fault, and time may mend it.
func (b *Inbox) refusedAlone(rows []*row, refusal error) error {
	if err := b.probe(rows); err != nil {
		return err
	}
	if len(rows) > 1 {
		b.later(rows[:len(rows)/2], false)
		b.later(rows[len(rows)/2:], false)
	} else if b.refuse(rows[0], refusal) {
		b.later(rows, false)
	}
	return nil
}

// giveUp fails rows whose deadline is over. Whoever waits for them tells why.
func (b *Inbox) giveUp(rows []*row) {
	for _, r := range rows {
		b.fail(r)
	}
}

// decide settles one delivery with the plane's full form: a lease that passed is reclaimed, a row past its
// retention is taken over, a fingerprint of another method is compared under that one. The claim, the
// inbox row and the completion share one transaction.
func (b *Inbox) decide(ctx context.Context, r *row) ([]idempotency.Verdict, error) {
	item := b.item(r)
	verdict := idempotency.Unsettled
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("settle a delivery alone: %w", err)
	}
	defer conn.Release()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settingsSQL, millis(lockTimeout), millis(statementTimeout), millis(idleTimeout)); err != nil {
			return err
		}
		plane := b.keys.In(tx)
		who := idempotency.Identity{ID: item.ID, Token: item.Token}
		content := &fingerprint{ctx: ctx, current: item.Hash, row: r}
		outcome, err := plane.ClaimAs(ctx, who, item.Ref, content, Lease)
		if err != nil {
			return err
		}
		if outcome.Kind == idempotency.Conflict && content.unknown != "" {
			return fmt.Errorf("the key was stored with the method %q, which this release does not know or had no room for", content.unknown)
		}
		verdict = outcome.Kind
		switch {
		case outcome.Own: // an earlier attempt of this very delivery was committed
			verdict = idempotency.Claimed
		case outcome.Kind == idempotency.Claimed:
			if err := insertOne(ctx, tx, r, item); err != nil {
				return err
			}
			_, err = plane.Complete(ctx, outcome.Claim, idempotency.Answer{Resource: item.Resource})
		}
		return err
	})
	if err == nil {
		err = idempotency.CheckReplicated(conn.Conn())
	}
	if err != nil {
		return nil, fmt.Errorf("settle a delivery alone: %w", err)
	}
	return []idempotency.Verdict{verdict}, nil
}

// fingerprint is a delivery's content under the methods that an older row may have been hashed with.
type fingerprint struct {
	ctx     context.Context // of the one claim that it is made for
	current idempotency.Hash
	row     *row
	unknown string // a method that was asked for and is not known
}

func (f *fingerprint) Current() idempotency.Hash { return f.current }

func (f *fingerprint) Under(method string) (idempotency.Hash, bool) {
	work := f.row.entry.work
	text, known := work.Rehash.Rehash(f.ctx, work.Request, f.row.item.Position, method)
	if !known {
		f.unknown = method
	}
	hash, err := idempotency.ParseHash(text)
	return hash, err == nil
}
