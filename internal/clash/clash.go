// Package clash explains a hash_mismatch: it finds the delivery that holds the key, and shows which values differ.
package clash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// The bounds of a comparison.
const (
	maxDifferences = 50
	maxCompared    = 16 << 20 // bytes of a body, inflated
	maxValues      = 200_000  // in a body: a value of two bytes needs a hundred in memory
	searchTime     = 10 * time.Second
)

// Clash compares a hash_mismatch with the delivery that its key was claimed for. What is unknown is nil.
type Clash struct {
	DeliveryID  *uuid.UUID   `json:"delivery_id"` // nil: it was not found, and Note says why
	ReceivedAt  *time.Time   `json:"received_at"`
	Note        *string      `json:"note"`        // why the two are not compared, or do not differ
	Differences []Difference `json:"differences"` // the first 50, by path; never nil
	Differ      int          `json:"differ"`      // how many there are
}

// Find looks up the delivery that a hash_mismatch clashed with. If the delivery is gone, or not found within ten
// seconds, Note says so; that is not an error. The vendor parses a request of several deliveries; with a nil vendor
// the whole request is compared.
func Find(ctx context.Context, db idempotency.DB, vendor providers.Provider, dropped drops.Kept) (*Clash, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, errors.New("the inbox was not searched in time"))
	defer cancel()
	c := &Clash{Differences: []Difference{}}
	kept, err := findClaimed(ctx, db, vendor, dropped)
	switch {
	case errors.Is(err, feed.ErrNotFound):
		c.Note = new("the delivery that its key was claimed for is not in the inbox any more")
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.Note = new(context.Cause(ctx).Error())
	case err != nil:
		return nil, fmt.Errorf("find the delivery that it clashed with: %w", err)
	default:
		c.DeliveryID, c.ReceivedAt = &kept.ID, new(kept.ReceivedAt.UTC())
		c.compare(vendor, kept, dropped)
	}
	return c, nil
}

// findClaimed follows the key to its delivery. Keys are forgotten after days. It then searches the days of the inbox
// in which the key may have been claimed, and returns the latest delivery with the key.
func findClaimed(ctx context.Context, db idempotency.DB, vendor providers.Provider, dropped drops.Kept) (feed.Delivery, error) {
	inbox := feed.NewReader(db)
	key, err := idempotency.NewInspector(db).Show(ctx, dropped.OrganizationID, providers.ScopeName(dropped.Provider), dropped.DeliveryKey)
	if err != nil {
		return feed.Delivery{}, err
	}
	if key != nil && key.Resource.Type == "webhook_delivery" {
		id, err := uuid.Parse(key.Resource.ID)
		if err != nil {
			return feed.Delivery{}, fmt.Errorf("read the key's delivery: %w", err)
		}
		kept, err := inbox.Find(ctx, id)
		if !errors.Is(err, feed.ErrNotFound) && !kept.StoredAt.After(dropped.StoredAt) {
			return kept, err
		}
	}
	var last feed.Delivery
	for d, err := range inbox.All(ctx, feed.Filter{
		Organization: dropped.OrganizationID, Provider: dropped.Provider, Keys: []string{dropped.DeliveryKey},
		StoredFrom:  dropped.StoredAt.Add(-providers.Retention(vendor) - time.Hour), // an hour for clocks that differ
		StoredUntil: dropped.StoredAt,
	}) {
		if err != nil {
			return feed.Delivery{}, err
		}
		if !d.StoredAt.Before(last.StoredAt) {
			last = d
		}
	}
	if last.ID == uuid.Nil {
		return feed.Delivery{}, feed.ErrNotFound
	}
	return inbox.Find(ctx, last.ID)
}

// compare lists the differences between the delivery in the inbox and the dropped one.
func (c *Clash) compare(vendor providers.Provider, kept feed.Delivery, dropped drops.Kept) {
	if dropped.Body == nil {
		c.Note = new("it cannot be compared: " + drops.ErrNotKept.Error())
		return
	}
	was, wholeWas := providers.Readable(kept.ContentEncoding, kept.Body, maxCompared)
	is, wholeIs := providers.Readable(dropped.ContentEncoding, dropped.Body, maxCompared)
	if !wholeWas || !wholeIs {
		c.Note = new("one of the two is too large to be compared")
		return
	}
	is, err := partOf(vendor, dropped, is)
	switch {
	case err != nil:
		c.Note = new("what was dropped cannot be read any more")
	case valuesIn(was) > maxValues || valuesIn(is) > maxValues:
		c.Note = new("one of the two has too many values to be compared")
	default:
		if list, n := differences(was, is, maxDifferences); n > 0 {
			c.Differences, c.Differ = list, n
			return
		}
		c.Note = new("the two have equal values: they differ only in how they are written (repeated members, escapes, broken characters)")
	}
}

// partOf returns the dropped delivery's part of a request with several, as the inbox would hold it.
func partOf(vendor providers.Provider, dropped drops.Kept, body []byte) ([]byte, error) {
	if vendor == nil {
		return body, nil
	}
	deliveries, err := vendor.Parse(dropped.ContentType, body)
	if err != nil {
		return nil, err
	}
	if n := dropped.Position; n < len(deliveries) && deliveries[n].Body != nil {
		return deliveries[n].Body, nil
	}
	return body, nil
}
