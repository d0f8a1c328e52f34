package watch

import (
	"context"
	"fmt"
	"time"

	"webhook-gateway/drops"
)

// PostgreSQL is the database server that the traffic stops for a while.
type PostgreSQL interface {
	Start(ctx context.Context) error
	Stop() error
}

// EveryOutcome sends traffic with every possible outcome once. It has all of Slack's calls refused and most of
// Nylas's accepted, and stops and starts PostgreSQL in between.
func (t *Traffic) EveryOutcome(ctx context.Context, server PostgreSQL) error {
	ids, err := t.Accept(ctx, 120)
	if err != nil {
		return err
	}
	if err := t.AcceptPrevious(ctx, 6); err != nil {
		return err
	}
	for _, d := range []struct {
		reason drops.Reason
		n      int
	}{{drops.Duplicate, 30}, {drops.HashMismatch, 2}, {drops.UnknownJob, 12}, {drops.JobMismatch, 8}, {drops.Malformed, 7}} {
		if err := t.Drop(ctx, d.reason, d.n, ids); err != nil {
			return err
		}
	}
	if err := t.Handshake(ctx, 5); err != nil {
		return err
	}
	for _, r := range []struct {
		reason string
		n      int
	}{{"unsigned", 45}, {"mismatch", 9}, {"unconfirmed", 3}, {"no_secret", 6}, {"too_large", 4}} {
		if err := t.Reject(ctx, r.reason, r.n); err != nil {
			return err
		}
	}
	if err := t.Crowd(ctx); err != nil {
		return err
	}
	for _, r := range []struct {
		reason string
		n      int
	}{{"stale", 100}, {"unsigned", 950}, {"mismatch", 60}} {
		if err := t.RejectSlack(ctx, r.reason, r.n); err != nil {
			return err
		}
	}
	return t.Outage(ctx, server, 16)
}

// Outage stops PostgreSQL, sends that many deliveries, which fail, and starts it again. It returns once the gateway
// is ready.
func (t *Traffic) Outage(ctx context.Context, server PostgreSQL, deliveries int) error {
	if err := server.Stop(); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	if err := t.Fail(ctx, deliveries); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("start PostgreSQL again: %w", err)
	}
	return t.gateway.Ready(ctx)
}
