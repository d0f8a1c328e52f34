package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

// claimExamined settles one delivery with a full claim: it reclaims a lease that passed, takes over a row past its
// retention, and compares a fingerprint of another method under that method. The claim, the inbox row and the
// completion share one transaction.
func (b *Inbox) claimExamined(ctx context.Context, r *row) ([]idempotency.Verdict, error) {
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
