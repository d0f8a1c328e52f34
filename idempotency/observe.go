package idempotency

import (
	"context"
	"log/slog"
	"time"
)

// Op is what was asked of a key.
type Op string

// The operations an Observer is told of.
const (
	OpRead     Op = "read"
	OpClaim    Op = "claim"
	OpComplete Op = "complete"
	OpRelease  Op = "release"
	OpExtend   Op = "extend"
	OpAbandon  Op = "abandon"  // the claim is left alone until its lease passes; Err says why
	OpRollback Op = "rollback" // InTx has rolled back
)

// Event is one answer of the Service.
type Event struct {
	Op        Op
	Ref       Ref
	Kind      Kind // how the key stood
	Reclaimed bool
	FenceLost bool          // of an ending: the claim had moved on
	Took      time.Duration // of a claim
	Err       error         // of an ending that failed, an effect that did, a transaction that was rolled back
}

// Replayed says that a stored answer took the place of the effect.
func (e Event) Replayed() bool { return e.Kind == Completed }

// LogValue gives the key, what was asked, the answer, and whether it was replayed.
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

// Observer is told of every answer of Read, Claim, Complete, Release and Extend, and of every claim that ends otherwise,
// for logs, metrics and spans. It runs in the caller's goroutine, or in one that ends a claim whose caller is gone, and
// must not block.
type Observer func(ctx context.Context, e Event)

func (s *Service) observe(ctx context.Context, e Event) {
	if s.observer != nil {
		s.observer(ctx, e)
	}
}
