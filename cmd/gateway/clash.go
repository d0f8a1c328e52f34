package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/safetext"
)

// How much of what differs is shown, and how long it is looked for.
const (
	maxDifferences = 50
	maxCompared    = 16 << 20 // bytes of a body, after inflating
	maxValues      = 200_000  // of a body: one of two bytes takes a hundred of memory
	clashPatience  = 10 * time.Second
)

// clash is what a hash_mismatch clashed with: the delivery that its key was claimed for, and what differs.
type clash struct {
	delivery    uuid.UUID // zero: it was not found, and note says why
	receivedAt  time.Time
	note        string // what keeps the two from being compared, or from differing
	differences []difference
	differ      int // how many there are in all
}

type clashJSON struct {
	DeliveryID  *uuid.UUID   `json:"delivery_id"`
	ReceivedAt  *time.Time   `json:"received_at"`
	Note        *string      `json:"note"`
	Differences []difference `json:"differences"` // 50 at most
	Differ      int          `json:"differ"`      // how many there are
}

func (c *clash) out() *clashJSON {
	if c == nil {
		return nil
	}
	out := &clashJSON{DeliveryID: orNull(c.delivery), Note: orNull(c.note), Differences: c.differences, Differ: c.differ}
	if out.Differences == nil {
		out.Differences = []difference{}
	}
	if !c.receivedAt.IsZero() {
		at := c.receivedAt.UTC()
		out.ReceivedAt = &at
	}
	return out
}

func (c *clash) print(out io.Writer) {
	if c.delivery != uuid.Nil {
		fmt.Fprintf(out, "\nits key was claimed for delivery %s, received %s\n", c.delivery, c.receivedAt.UTC().Format(time.RFC3339Nano))
	}
	if c.note != "" {
		fmt.Fprintln(out, c.note)
	}
	if c.differ == 0 {
		return
	}
	fmt.Fprintln(out, "what differs (- is in the inbox, + was dropped):")
	for _, d := range c.differences {
		fmt.Fprintf(out, "  %s\n", safetext.Line(d.Path))
		for _, side := range []struct {
			mark string
			text *string
		}{{"-", d.Inbox}, {"+", d.Dropped}} {
			text := "(absent)"
			if side.text != nil {
				text = safetext.Line(*side.text)
			}
			fmt.Fprintf(out, "    %s %s\n", side.mark, text)
		}
	}
	if more := c.differ - len(c.differences); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// inboxRow is what the inbox holds of a delivery.
type inboxRow struct {
	ID              uuid.UUID
	ReceivedAt      time.Time
	ContentType     string
	ContentEncoding string
	Body            []byte
}

// findClash looks up what a hash_mismatch clashed with. What is not there any more is no error.
func findClash(ctx context.Context, pool *pgxpool.Pool, k drops.Kept) (*clash, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, clashPatience, errors.New("the inbox was not searched in time"))
	defer cancel()
	row, err := findClaimed(ctx, pool, k)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &clash{note: "the delivery that its key was claimed for is not in the inbox any more"}, nil
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &clash{note: context.Cause(ctx).Error()}, nil
	case err != nil:
		return nil, fmt.Errorf("find the delivery that it clashed with: %w", err)
	}
	c := &clash{delivery: row.ID, receivedAt: row.ReceivedAt}
	c.compare(k, row)
	return c, nil
}

// findClaimed follows the key to its delivery. When the key is forgotten, the inbox is searched by itself, in
// the days in which the key may have been claimed.
func findClaimed(ctx context.Context, pool *pgxpool.Pool, k drops.Kept) (inboxRow, error) {
	const columns = `SELECT id, received_at, content_type, content_encoding, body FROM agent.webhook_deliveries `
	const byKey = columns + `
 WHERE stored_at <= $4
   AND id = (SELECT resource_id::uuid FROM agent.idempotency_keys
              WHERE organization_id = $1 AND scope = $2 AND key = $3 AND resource_type = 'webhook_delivery')
 LIMIT 1`
	const searched = columns + `
 WHERE stored_at BETWEEN $4 AND $5 AND delivery_key = $3 AND organization_id = $1 AND provider = $2
 ORDER BY stored_at DESC
 LIMIT 1`
	scope, err := idempotency.NewScope("webhook." + k.Provider)
	if err != nil {
		return inboxRow{}, err
	}
	rows, err := pool.Query(ctx, byKey, k.OrganizationID, scope.String(), k.DeliveryKey, k.StoredAt)
	if err != nil {
		return inboxRow{}, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[inboxRow])
	if !errors.Is(err, pgx.ErrNoRows) {
		return found, err
	}
	from := k.StoredAt.Add(-scope.Retention() - time.Hour) // and what a clock may be off
	rows, err = pool.Query(ctx, searched, k.OrganizationID, k.Provider, k.DeliveryKey, from, k.StoredAt)
	if err != nil {
		return inboxRow{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[inboxRow])
}

// compare finds what differs between the two deliveries.
func (c *clash) compare(k drops.Kept, row inboxRow) {
	kept, keptWhole := inflate(row.Body, row.ContentEncoding, maxCompared)
	dropped, droppedWhole := inflate(k.Body, k.ContentEncoding, maxCompared)
	switch {
	case k.Body == nil:
		c.note = "it cannot be compared: " + bodyNotKept
		return
	case !keptWhole || !droppedWhole:
		c.note = "one of the two is too large to be compared"
		return
	}
	part, err := partOf(k, dropped)
	if err != nil {
		c.note = "what was dropped cannot be read any more"
		return
	}
	if valuesIn(kept) > maxValues || valuesIn(part) > maxValues {
		c.note = "one of the two has too many values to be compared"
		return
	}
	c.differences, c.differ = differences(kept, part, maxDifferences)
	if c.differ == 0 {
		c.note = "the two read alike: they differ in how they are written (repeated members, escapes, broken characters)"
	}
}

// partOf returns the delivery's part of a request that carries several, as the inbox would hold it.
func partOf(k drops.Kept, body []byte) ([]byte, error) {
	for _, p := range wired() {
		if p.Name() != k.Provider {
			continue
		}
		deliveries, err := p.Parse(k.ContentType, body)
		if err != nil {
			return nil, err
		}
		if k.Position < len(deliveries) && deliveries[k.Position].Body != nil {
			return deliveries[k.Position].Body, nil
		}
	}
	return body, nil
}
