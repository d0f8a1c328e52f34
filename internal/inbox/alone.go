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

// later settles a delivery on its own, beside the batches: what it waits for must not hold up others.
// decide says that a claim stands in its way which only the plane's full form can judge.
func (b *Inbox) later(r *row, decide bool) {
	b.straggling.Go(func() { b.settleAlone(r, decide) })
}

// settleAlone repeats until the delivery has an ending or its deadline is over.
func (b *Inbox) settleAlone(r *row, decide bool) {
	over := time.NewTimer(time.Until(r.entry.work.Deadline))
	defer over.Stop()
	var err error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case b.alone <- struct{}{}:
			var again bool
			for again = true; again; {
				again, decide, err = b.tryAlone(r, decide)
			}
			<-b.alone
			if err == nil {
				return
			}
		case <-over.C:
			b.giveUp(r, err)
			return
		}
		select {
		case <-time.After(pause):
		case <-over.C:
			b.giveUp(r, err)
			return
		}
	}
}

// tryAlone makes one attempt. again: something was learnt, and the next attempt differs; otherwise the
// delivery has ended, or there is an error that time may mend.
func (b *Inbox) tryAlone(r *row, decide bool) (again, decideNext bool, err error) {
	verdicts, err := b.attempt(func(ctx context.Context) ([]idempotency.Verdict, error) {
		if decide && r.drop == nil {
			return b.decide(ctx, r)
		}
		return b.transact(ctx, []*row{r})
	})
	switch {
	case err == nil:
		judged := b.judge(r, verdicts[0])
		return judged != ended, judged == toDecide, nil
	case isRefusal(err):
		return b.refuse(r, err), decide, nil
	case isMissingDay(err) && b.makeDay():
		return true, decide, nil
	}
	return false, decide, err
}

func (b *Inbox) giveUp(r *row, err error) {
	b.log.Error("delivery not settled in time", "provider", r.provider(), "request_id", r.entry.work.Request.ID, "err", err)
	b.fail(r)
}

// decide settles one delivery with the plane's full form: a lease that passed is reclaimed, a row past its
// retention is taken over, a fingerprint of another method is compared under that one. The claim, the
// inbox row and the completion share one transaction.
func (b *Inbox) decide(ctx context.Context, r *row) ([]idempotency.Verdict, error) {
	item := b.item(r)
	verdict := idempotency.Unsettled
	err := pgx.BeginTxFunc(ctx, b.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settingsSQL, millis(lockTimeout), millis(statementTimeout), millis(idleTimeout)); err != nil {
			return err
		}
		plane := b.keys.In(tx)
		who := idempotency.Identity{ID: item.ID, Token: item.Token}
		outcome, err := plane.ClaimAs(ctx, who, item.Ref, fingerprint{item.Hash, r}, Lease)
		if err != nil {
			return err
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
	if err != nil {
		return nil, fmt.Errorf("settle a delivery alone: %w", err)
	}
	return []idempotency.Verdict{verdict}, nil
}

// fingerprint is a delivery's content under the methods that an older row may have been hashed with.
type fingerprint struct {
	current idempotency.Hash
	row     *row
}

func (f fingerprint) Current() idempotency.Hash { return f.current }

func (f fingerprint) Under(method string) (idempotency.Hash, bool) {
	body, encoding := f.row.body()
	if encoding != "" { // the hash is of what was inflated, which is gone
		return idempotency.Hash{}, false
	}
	return idempotency.Content(body).Under(method)
}
