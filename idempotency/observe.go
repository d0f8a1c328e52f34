package idempotency

import (
	"context"
	"log/slog"
	"time"
)

// Op is an operation on a key.
type Op string

// The operations that an Observer receives.
const (
	OpRead     Op = "read"
	OpClaim    Op = "claim"
	OpComplete Op = "complete"
	OpRelease  Op = "release"
	OpExtend   Op = "extend"
	OpAbandon  Op = "abandon"  // the claim stays until its lease passes; Err says why
	OpRollback Op = "rollback" // InTx has rolled back
)

// Event is one result of the Service.
type Event struct {
	Op        Op
	Ref       Ref
	Kind      Kind // the state of the key
	Reclaimed bool
	FenceLost bool          // of an ending: another worker owns the key
	Took      time.Duration // of a claim
	Err       error         // of a failed ending, a failed effect, or a transaction that was rolled back
}

// Replayed reports that a stored answer was returned instead of making the effect.
func (e Event) Replayed() bool { return e.Kind == Completed }

// LogValue returns the key, the operation, its result, and whether it was replayed.
func (e Event) LogValue() slog.Value {
	attrs := append(e.Ref.LogValue().Group(),
		slog.String("op", string(e.Op)),
		slog.String("kind", string(e.Kind)),
		slog.Bool("replayed", e.Replayed()),
		slog.Bool("reclaimed", e.Reclaimed),
		slog.Bool("fence_lost", e.FenceLost),
	)
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	return slog.GroupValue(attrs...)
}

// Observer receives every result of Read, Claim, Complete, Release and Extend, and every claim that ends otherwise, for
// logs, metrics and spans. It runs in the caller's goroutine, or in one that ends a claim whose caller is gone, and
// must not block.
type Observer func(ctx context.Context, e Event)

func (s *Service) observe(ctx context.Context, e Event) {
	if s.observer != nil {
		s.observer(ctx, e)
	}
}
