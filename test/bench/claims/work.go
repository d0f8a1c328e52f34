package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"webhook-gateway/idempotency"
)

// call claims the keys and returns the state of each.
type call func(ctx context.Context, refs []idempotency.Ref) ([]idempotency.Kind, error)

// work lets workers call in a loop, and returns the keys a second. The first tenth of the time is for warming up.
func (b *bench) work(ctx context.Context, workers int, known bool, size int, claim call) (float64, error) {
	started := time.Now()
	rates := make([]float64, workers)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		group.Go(func() error {
			var begin time.Time // of what counts
			keys := 0
			for at := w * b.options.known / workers; ; at += size { // known keys: each worker begins elsewhere
				kinds, err := claim(ctx, b.refs(known, at, size))
				if err == nil {
					err = expect(kinds, known, size)
				}
				if err != nil {
					return err
				}
				switch now := time.Now(); {
				case !begin.IsZero():
					keys += size
					rates[w] = float64(keys) / now.Sub(begin).Seconds()
					if now.Sub(begin) >= b.each {
						return nil
					}
				case now.Sub(started) >= b.each/10:
					begin = now
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum, nil
}

// refs returns the next keys: new ones, or the known ones in turn.
func (b *bench) refs(known bool, at, size int) []idempotency.Ref {
	refs := make([]idempotency.Ref, size)
	for i := range refs {
		id := ""
		if known {
			id = strconv.Itoa((at + i) % b.options.known)
		} else {
			id = uuid.NewString()
		}
		refs[i] = idempotency.Ref{Organization: b.org, Scope: b.scope, Key: idempotency.MustKey(idempotency.DeliveryKey(b.job, id))}
	}
	return refs
}

// expect checks that the measurement did what was intended.
func expect(kinds []idempotency.Kind, known bool, size int) error {
	want := idempotency.Claimed
	if known {
		want = idempotency.Completed
	}
	if len(kinds) != size {
		return fmt.Errorf("%d answers for %d keys", len(kinds), size)
	}
	for _, k := range kinds {
		if k != want {
			return fmt.Errorf("a key is %s, want %s", k, want)
		}
	}
	return nil
}

func (b *bench) claim(ctx context.Context, refs []idempotency.Ref) ([]idempotency.Kind, error) {
	o, err := b.keys.Claim(ctx, refs[0], b.hash, lease)
	return []idempotency.Kind{o.Kind}, err
}

func (b *bench) claimMany(ctx context.Context, refs []idempotency.Ref) ([]idempotency.Kind, error) {
	wanted := make([]idempotency.Wanted, len(refs))
	for i, r := range refs {
		wanted[i] = idempotency.Wanted{Ref: r, Content: b.hash}
	}
	outcomes, err := b.keys.ClaimMany(ctx, wanted, lease)
	kinds := make([]idempotency.Kind, len(outcomes))
	for i, o := range outcomes {
		kinds[i] = o.Kind
	}
	return kinds, err
}

// effects claims, inserts a row for each key and completes, in one transaction and one round trip.
func (b *bench) effects(ctx context.Context, refs []idempotency.Ref) ([]idempotency.Kind, error) {
	items := make([]idempotency.Item, len(refs))
	for i, r := range refs {
		who := idempotency.Mint()
		items[i] = idempotency.Item{Ref: r, Hash: b.hash, ID: who.ID, Token: who.Token,
			Resource: idempotency.ResourceRef{Type: "webhook_delivery", ID: who.ID.String()}}
	}
	e, err := b.keys.NewEffects(items, lease)
	if err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN`)
	if err := e.Queue(batch, `INSERT INTO effects (id) SELECT id FROM claimed`); err != nil {
		return nil, err
	}
	batch.Queue(`COMMIT`)
	if err := b.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("send a batch of effects: %w", err)
	}
	return e.Verdicts(), nil
}
