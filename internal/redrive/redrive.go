// Package redrive processes kept drops again, as if their requests had just been verified: it parses, resolves and
// stores them with the present sources and jobs.
package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/providers"
)

// Connections is the number of connections that a Driver's pool needs: for its committer, for deliveries that are
// settled alone, and three to read.
const Connections = 1 + inbox.SpareConnections + 3

// RefuseMismatch says why a hash_mismatch is never redriven.
const RefuseMismatch = "a hash_mismatch is not redriven: its key belongs to other content"

// Driver redrives drops through its own gate and inbox, on the gateways' database.
type Driver struct {
	drops   *drops.Store
	inbox   *feed.Reader
	keys    *idempotency.Service
	scopes  map[string]idempotency.Scope // by provider
	gate    *providers.Gate
	settler *inbox.Inbox
}

// Deps are what a Driver needs.
type Deps struct {
	Pool       *pgxpool.Pool // with room for Connections; it stays the caller's
	Vendors    []providers.Provider
	Directory  providers.Directory
	Registerer prometheus.Registerer // for the metrics of gate and inbox; deliveries count as recovered
	Log        *slog.Logger
}

// New returns a Driver, which must be stopped. maxInflated is as in providers.NewGate. The options' Committers is
// ignored: one committer stores the deliveries in their order.
func New(deps Deps, options inbox.Options, maxInflated int64) (*Driver, error) {
	keys, err := idempotency.NewService(deps.Pool, idempotency.Options{})
	if err != nil {
		return nil, err
	}
	d := &Driver{drops: drops.NewStore(deps.Pool), inbox: feed.NewReader(deps.Pool), keys: keys}
	if d.scopes, err = inbox.Scopes(deps.Vendors); err != nil {
		return nil, err
	}
	var names []string
	for _, vendor := range deps.Vendors {
		names = append(names, vendor.Name())
	}
	ledger := drops.NewLedger(names)
	deps.Registerer.MustRegister(ledger)
	options.Committers = 1
	d.settler, err = inbox.New(inbox.Deps{
		Pool: deps.Pool, Keys: keys, Partitions: inbox.NewPartitions(deps.Pool), Registerer: deps.Registerer, Scopes: d.scopes, Log: deps.Log,
	}, options)
	if err != nil {
		return nil, err
	}
	d.gate = providers.NewGate(deps.Vendors, deps.Directory, d.settler, ledger, maxInflated)
	return d, nil
}

// Stop waits until the deliveries in progress are stored.
func (d *Driver) Stop() { d.settler.Stop(context.Background()) }

// PlanIDs plans the drops with these ids, in this order. It refuses an id that does not exist.
func (d *Driver) PlanIDs(ctx context.Context, ids []uuid.UUID) (*Plan, error) {
	plan := &Plan{}
	redrives, err := d.drops.Redrives(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		kept, err := d.drops.Find(ctx, id)
		if errors.Is(err, drops.ErrNotFound) {
			plan.Steps = append(plan.Steps, &Step{Drop: drops.Kept{ID: id}, Refused: true, Detail: "there is no such drop; its retention may have passed"})
			continue
		}
		if err != nil {
			return nil, err
		}
		kept.Headers, kept.Body = "", nil // DryRun and Drive read them again, a few at a time
		why := d.refusal(kept, redrives[id])
		plan.Steps = append(plan.Steps, &Step{Drop: kept, Refused: why != "", Detail: why})
	}
	return plan, nil
}

// PlanFilter plans the drops that the filter selects, the oldest first. The filter's limit counts only drops that are
// not refused. Beyond it the newest are planned, and the plan's More is set.
func (d *Driver) PlanFilter(ctx context.Context, filter drops.Filter) (*Plan, error) {
	plan, wanted := &Plan{}, filter.Limit
	filter.Limit = 1000 // settled drops fill a page too
	for {
		page, more, err := d.drops.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		redrives, err := d.drops.Redrives(ctx, drops.IDs(page))
		if err != nil {
			return nil, err
		}
		for _, kept := range page {
			why := d.refusal(kept, redrives[kept.ID])
			if why == "" && wanted == 0 {
				plan.More = true
				break
			}
			if why == "" {
				wanted--
			}
			plan.Steps = append(plan.Steps, &Step{Drop: kept, Refused: why != "", Detail: why})
		}
		if plan.More || !more {
			slices.Reverse(plan.Steps)
			return plan, nil
		}
		filter.After = page[len(page)-1].Cursor()
	}
}

// refusal returns why a drop is not redriven; empty if it is.
func (d *Driver) refusal(kept drops.Kept, redrives []drops.Redrive) string {
	for _, before := range redrives {
		if before.Outcome.Settled() {
			return fmt.Sprintf("redriven by %s at %s: %s", before.By, before.At.UTC().Format(time.RFC3339), before.Outcome)
		}
	}
	if kept.Reason == drops.HashMismatch {
		return RefuseMismatch
	}
	if _, known := d.scopes[kept.Provider]; !known {
		return "this gateway has no provider " + kept.Provider
	}
	return ""
}
