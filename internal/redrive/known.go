package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// unknown is a delivery without a stored key.
type unknown struct {
	*part
	req *providers.Request
}

// lookUp ends the deliveries that the inbox has already. If the key exists, settling the delivery shows that.
// Otherwise lookUp reads the inbox: keys are forgotten after days, rows after weeks.
func (d *Driver) lookUp(ctx context.Context, some []*request) error {
	var list []unknown
	for _, r := range some {
		for _, s := range r.steps {
			for i := range s.parts {
				p := &s.parts[i]
				if p.item.Reason != "" {
					continue
				}
				if err := d.readKey(ctx, p, r.Provider); err != nil {
					return err
				}
				if p.key == "" || p.key == idempotency.Absent {
					list = append(list, unknown{p, r.Request})
				}
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := d.lookUpByID(ctx, list); err != nil {
		return fmt.Errorf("look in the inbox by id: %w", err)
	}
	if err := d.lookUpByKey(ctx, list); err != nil {
		return fmt.Errorf("look in the inbox by key: %w", err)
	}
	return nil
}

// readKey reads the state of the delivery's key. A delivery without a vendor's id has no key.
func (d *Driver) readKey(ctx context.Context, p *part, provider string) error {
	if p.item.VendorID == "" {
		return nil
	}
	hash, err := idempotency.ParseHash(p.item.Hash)
	if err != nil {
		return err
	}
	key, err := idempotency.DeliveryKey(p.item.Job, p.item.VendorID)
	if err != nil {
		return err
	}
	found, err := d.keys.Read(ctx, idempotency.Ref{Organization: p.item.Organization, Scope: d.scopes[provider], Key: key}, hash)
	p.key = found.Kind
	return err
}

// lookUpByID finds the rows of earlier redrives, for any job: they minted the same ids.
func (d *Driver) lookUpByID(ctx context.Context, list []unknown) error {
	byID := make(map[uuid.UUID]*part)
	var ids []uuid.UUID
	for _, u := range list {
		id := u.req.Mint(providers.DeliveryID, u.item.Position)
		byID[id] = u.part
		ids = append(ids, id)
	}
	from, _ := d.window(list)
	for row, err := range d.inbox.All(ctx, feed.Filter{IDs: ids, StoredFrom: from}) {
		if err != nil {
			return err
		}
		byID[row.ID].duplicateOf(row.ID)
	}
	return nil
}

// lookUpByKey finds the rows of the vendor's other attempts. No index has the key. But an id begins with the time of
// receipt, so the primary key limits the search to the time in which the vendor may repeat.
func (d *Driver) lookUpByKey(ctx context.Context, list []unknown) error {
	byKey := make(map[string][]*part)
	var keys []string
	for _, u := range list {
		if u.outcome != "" || u.item.VendorID == "" {
			continue
		}
		key, err := idempotency.DeliveryKey(u.item.Job, u.item.VendorID)
		if err != nil {
			return err
		}
		byKey[key.String()] = append(byKey[key.String()], u.part)
		keys = append(keys, key.String())
	}
	if len(keys) == 0 {
		return nil
	}
	from, until := d.window(list)
	for row, err := range d.inbox.All(ctx, feed.Filter{Keys: keys, StoredFrom: from, ReceivedFrom: from, ReceivedUntil: until}) {
		if err != nil {
			return err
		}
		for _, p := range byKey[row.DeliveryKey] {
			p.duplicateOf(row.ID)
		}
	}
	return nil
}

// window returns when the deliveries and the vendor's other attempts at them were received: a key outlasts every
// repeat.
func (d *Driver) window(list []unknown) (from, until time.Time) {
	for _, u := range list {
		at, span := u.req.ReceivedAt, d.scopes[u.req.Provider].Retention()
		if first := at.Add(-span); from.IsZero() || first.Before(from) {
			from = first
		}
		if last := at.Add(span); last.After(until) {
			until = last
		}
	}
	return from, until
}

// duplicateOf ends the delivery as a duplicate of a row in the inbox.
func (p *part) duplicateOf(id uuid.UUID) {
	p.outcome, p.detail = drops.Outcome(drops.Duplicate), alreadyKept+" as "+id.String()
}
