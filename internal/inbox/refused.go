package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/sqlstate"
	"webhook-gateway/providers"
)

// A refusal of data (SQLSTATE 22, 23 and 54) may be the delivery's fault, or ours: a trigger that fails, a column
// that a newer release demands, an encoding of the session that lacks a character. Only the first makes a delivery
// malformed, which is final. So a delivery that is known to be good is stored the same way, and rolled back.

// settleRefused halves the rows until the one whose data PostgreSQL refuses stands alone. The others are settled.
func (b *Inbox) settleRefused(rows []*row, refusal error) {
	if err := b.probe(rows); err != nil {
		b.settleEachAlone(rows, err)
		return
	}
	if len(rows) > 1 {
		b.settle(rows[:len(rows)/2])
		b.settle(rows[len(rows)/2:])
		return
	}
	if b.dropRefused(rows[0], refusal) {
		b.settle(rows)
	}
}

// dropRefused makes a delivery that PostgreSQL does not store a malformed drop: it is signed, so the vendor is
// answered that it arrived. It reports whether there is a drop to write. A drop that is refused has failed.
func (b *Inbox) dropRefused(r *row, err error) bool {
	b.log.Warn("delivery refused by the database",
		"provider", r.provider(), "request_id", r.entry.work.Request.ID, "position", r.item.Position, "code", sqlstate.Of(err))
	if r.drop != nil {
		b.fail(r)
		return false
	}
	return b.keepDrop(r, drops.Malformed, "the database refuses it: "+sqlstate.Of(err))
}

// probe stores a known-good delivery of the refused rows' kind and takes it back. Nil: PostgreSQL takes it, so what it
// refused is at fault. Drops are not probed: one that is refused is asked to come again, whatever the fault.
func (b *Inbox) probe(refused []*row) error {
	i := slices.IndexFunc(refused, func(r *row) bool { return r.drop == nil })
	if i < 0 {
		return nil
	}
	good := knownGood(refused[i])
	_, err := b.attempt(func(ctx context.Context) ([]idempotency.Verdict, error) {
		batch := &pgx.Batch{}
		queueBegin(batch)
		if _, err := b.queueRows(batch, []*row{good}); err != nil {
			return nil, err
		}
		batch.Queue(`SET CONSTRAINTS ALL IMMEDIATE`) // those that COMMIT would look at
		batch.Queue(`ROLLBACK`)
		return nil, b.send(ctx, batch)
	})
	if isRefusal(err) {
		b.metrics.faults.Inc()
		err = fmt.Errorf("PostgreSQL refuses a known-good delivery too: %w", err)
	}
	return err
}

// knownGood is a delivery for the same job. A session with another encoding refuses some text and accepts the rest:
// this one holds the bytes that WIN1252 lacks (81, 8D, 8F, 90, 9D), and sequences that the encodings of East Asia lack.
func knownGood(like *row) *row {
	const text = "known-good Á Í Ï А Н € 漢 😀"
	was, body := like.entry.work.Request, []byte(`"`+text+`"`)
	hash := idempotency.Content(body).Current()
	work := &providers.Work{
		Request: &providers.Request{
			ID: uuid.Must(uuid.NewV7()), Seed: providers.NewSeed(), Provider: was.Provider, Target: was.Target, VerifiedBy: was.VerifiedBy,
			ReceivedAt: time.Now(), ContentType: text, Headers: []providers.Header{{Name: "user-agent", Value: text}}, Body: body,
		},
		Items: []providers.Item{{
			Delivery:     providers.Delivery{VendorID: text + uuid.NewString(), Type: text, OrderingKey: text, Hash: hash.String()},
			Job:          like.item.Job,
			Organization: like.item.Organization,
		}},
	}
	good := newRow(&entry{work: work}, 0)
	good.hash = hash
	return good
}
