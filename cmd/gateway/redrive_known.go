package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// lookUp finds what the inbox has already of the deliveries. A key that is there says so by itself, when the
// delivery is settled. Where it is not, the inbox is asked: keys are forgotten after days, and rows after weeks.
func (r *redriver) lookUp(ctx context.Context, some []*keptRequest) error {
	var unknown []unknownPart
	for _, s := range stepsOf(some) {
		for i := range s.parts {
			p := &s.parts[i]
			if p.item.Reason != "" {
				continue
			}
			if err := r.readKey(ctx, p, s.kept.Provider); err != nil {
				return err
			}
			if p.key == "" || p.key == idempotency.Absent {
				unknown = append(unknown, unknownPart{redrivePart: p, step: s})
			}
		}
	}
	if err := r.lookUpByID(ctx, unknown); err != nil {
		return fmt.Errorf("look in the inbox by id: %w", err)
	}
	if err := r.lookUpByKey(ctx, unknown); err != nil {
		return fmt.Errorf("look in the inbox by key: %w", err)
	}
	return nil
}

// unknownPart is a delivery whose key says nothing.
type unknownPart struct {
	*redrivePart
	step *redriveStep
}

// id is what the row of the inbox is called that the drop became when it was driven before.
func (u unknownPart) id() uuid.UUID { return u.step.req.Mint(providers.DeliveryID, u.item.Position) }

func (r *redriver) readKey(ctx context.Context, p *redrivePart, provider string) error {
	if p.item.VendorID == "" {
		return nil // it has none
	}
	hash, err := idempotency.ParseHash(p.item.Hash)
	if err != nil {
		return err
	}
	key, err := idempotency.DeliveryKey(p.item.Job, p.item.VendorID)
	if err != nil {
		return err
	}
	found, err := r.keys.Read(ctx, idempotency.Ref{Organization: p.item.Organization, Scope: r.scopes[provider], Key: key}, hash)
	p.key = found.Kind
	return err
}

// lookUpByID finds what became a row when its drop was driven before, of whatever job.
func (r *redriver) lookUpByID(ctx context.Context, unknown []unknownPart) error {
	const sql = `SELECT id FROM agent.webhook_deliveries WHERE id = ANY ($1) AND stored_at >= $2`
	byID := make(map[uuid.UUID]unknownPart)
	var ids []uuid.UUID
	for _, u := range unknown {
		byID[u.id()] = u
		ids = append(ids, u.id())
	}
	if len(ids) == 0 {
		return nil
	}
	from, _ := r.window(unknown)
	rows, err := r.pool.Query(ctx, sql, ids, from)
	if err != nil {
		return err
	}
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { byID[id].kept(id); return nil })
	return err
}

// lookUpByKey finds what was stored of another of the vendor's attempts. No index has the key. But an id begins with
// the time of receipt, so the primary key leads to what was received as long before or after as the vendor may have
// repeated it.
func (r *redriver) lookUpByKey(ctx context.Context, unknown []unknownPart) error {
	const sql = `
SELECT delivery_key, id
  FROM agent.webhook_deliveries
 WHERE stored_at >= $1 AND id >= $2 AND id < $3 AND delivery_key = ANY ($4)`
	byKey := make(map[string][]unknownPart)
	var keys []string
	for _, u := range unknown {
		if u.outcome == "" && u.item.VendorID != "" {
			key, err := idempotency.DeliveryKey(u.item.Job, u.item.VendorID)
			if err != nil {
				return err
			}
			byKey[key.String()] = append(byKey[key.String()], u)
			keys = append(keys, key.String())
		}
	}
	if len(keys) == 0 {
		return nil
	}
	from, until := r.window(unknown)
	rows, err := r.pool.Query(ctx, sql, from, idSince(from), idSince(until), keys)
	if err != nil {
		return err
	}
	var key string
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&key, &id}, func() error {
		for _, u := range byKey[key] {
			u.kept(id)
		}
		return nil
	})
	return err
}

// window is when the deliveries and the vendor's other attempts at them were received: a key outlasts every repeat.
func (r *redriver) window(unknown []unknownPart) (from, until time.Time) {
	for _, u := range unknown {
		at, span := u.step.kept.ReceivedAt, r.scopes[u.step.kept.Provider].Retention()
		if first := at.Add(-span); from.IsZero() || first.Before(from) {
			from = first
		}
		if last := at.Add(span); last.After(until) {
			until = last
		}
	}
	return from, until
}

// kept ends the delivery as one that is in the inbox.
func (p *redrivePart) kept(as uuid.UUID) {
	p.outcome, p.detail = drops.Outcome(drops.Duplicate), alreadyKept+" as "+as.String()
}
