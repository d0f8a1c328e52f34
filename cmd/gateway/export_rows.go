package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/drops"
	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// vendorProvider is a vendor's protocol.
type vendorProvider = providers.Provider

const selectDelivery = `
SELECT provider, job_id, delivery_key, event_type, headers::text, content_type, content_encoding, body, received_at
  FROM agent.webhook_deliveries
 WHERE id = $1`

// storedDelivery is a row of the inbox as it is read for a capture.
type storedDelivery struct {
	Provider                       string
	Job                            uuid.UUID
	Key, Type                      string
	Headers, ContentType, Encoding string
	Body                           []byte
	ReceivedAt                     time.Time
}

// delivery makes a capture of a row of the inbox; drops.ErrNotFound when there is none of that id.
func (e *exporter) delivery(ctx context.Context, id uuid.UUID) (*capture.Capture, error) {
	rows, err := e.pool.Query(ctx, selectDelivery, id)
	if err != nil {
		return nil, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[storedDelivery])
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, drops.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	p, ok := e.vendors[row.Provider]
	if !ok {
		return nil, fmt.Errorf("it is of %s, which this build has not", row.Provider)
	}
	e.kind = row.Type
	body, alone := whole(p, row)
	origin := capture.Origin{Vendor: p, KeepToken: e.keepToken}
	target := providers.JobPath(row.Provider, row.Job)
	job, ok := e.Job(row.Provider, row.Job)
	if !ok {
		return nil, errors.New("its job's source was removed, and with it what would sign it")
	}
	origin.Job = capture.PartyOf(job.ID.String(), job.Pins, job.Fallback)
	if s, ok := e.SourceByID(job.SourceID); ok {
		origin.Source = capture.PartyOf(s.Name, s.Pins, false)
		target = providers.SourcePath(row.Provider, s.Name)
	}
	c, err := origin.Capture(&capture.Message{
		Method: http.MethodPost, Target: target, Body: body, At: row.ReceivedAt,
		Headers: storedHeaders(row.ContentType, row.Encoding, row.Headers),
	})
	if err != nil {
		return nil, err
	}
	if alone {
		c.About = "one delivery of a request that carried several, in a request of its own"
	}
	c.Describe(p)
	return c, nil
}

// whole is the body of a request that carries a stored delivery. One of several was stored without what was
// around it.
func whole(p providers.Provider, row storedDelivery) (body []byte, alone bool) {
	_, id, _ := strings.Cut(row.Key, "/")
	is := func(body []byte) bool {
		deliveries, err := p.Parse(row.ContentType, body)
		return err == nil && len(deliveries) == 1 && deliveries[0].VendorID == id
	}
	if row.Encoding != "" || is(row.Body) {
		return row.Body, false
	}
	wrapped := fmt.Appendf(nil, `{"deltas":[%s]}`, row.Body)
	if is(wrapped) {
		return wrapped, true
	}
	return row.Body, false // it has no id of the vendor's: it is its own
}

// storedHeaders are the headers of a request as far as they are stored.
func storedHeaders(contentType, encoding, kept string) []capture.Header {
	var list []capture.Header
	if contentType != "" {
		list = append(list, capture.Header{"Content-Type", contentType})
	}
	if encoding != "" {
		list = append(list, capture.Header{"Content-Encoding", encoding})
	}
	for _, pair := range headerPairs(kept) {
		list = append(list, capture.Header(pair))
	}
	return list
}

// drop makes a capture of the request that a drop came in; drops.ErrNotFound when there is none of that id.
func (e *exporter) drop(ctx context.Context, id uuid.UUID) (*capture.Capture, error) {
	kept, err := drops.NewStore(e.pool).Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if kept.Body == nil {
		return nil, drops.ErrNotKept
	}
	p, ok := e.vendors[kept.Provider]
	if !ok {
		return nil, fmt.Errorf("it is of %s, which this build has not", kept.Provider)
	}
	e.kind = string(kept.Reason)
	origin := capture.Origin{Vendor: p, KeepToken: e.keepToken}
	if jobs.VerifierKind(kept.VerifiedBy) == jobs.BySource {
		s, ok := e.SourceByID(kept.VerifierID)
		if !ok {
			return nil, errors.New("the source that verified it was removed, and with it what would sign it")
		}
		origin.Source = capture.PartyOf(s.Name, s.Pins, false)
	}
	for _, job := range []uuid.UUID{kept.JobID, kept.PathJob} {
		if j, ok := e.Job(kept.Provider, job); ok && origin.Job == nil && (origin.Source == nil || j.SourceID == kept.VerifierID) {
			origin.Job = capture.PartyOf(j.ID.String(), j.Pins, j.Fallback)
		}
	}
	target := dropPath(kept)
	if target == "" {
		target = "/webhooks/" + kept.Provider + "/an-id-that-cannot-be-read"
	}
	c, err := origin.Capture(&capture.Message{
		Method: http.MethodPost, Target: target, Body: kept.Body, At: kept.ReceivedAt,
		Headers: storedHeaders(kept.ContentType, kept.ContentEncoding, kept.Headers),
	})
	if err != nil {
		return nil, err
	}
	reasons, err := e.reasons(ctx, kept.RequestID)
	if err != nil {
		return nil, err
	}
	deliveries := c.Deliveries(p)
	items := make([]providers.Item, max(len(deliveries), 1))
	for i := range items {
		if i < len(deliveries) {
			items[i].Delivery = deliveries[i]
		}
		if reason := reasons[i]; reason != drops.HashMismatch { // which another delivery made it
			items[i].Reason = reason
		}
	}
	c.Expect = capture.ExpectItems(items)
	return c, nil
}

// reasons are why the deliveries of a request were dropped, by their places in it. One that is not there
// was kept, or is a duplicate.
func (e *exporter) reasons(ctx context.Context, request uuid.UUID) (map[int]drops.Reason, error) {
	rows, err := e.pool.Query(ctx, `SELECT position, reason FROM agent.webhook_drops WHERE request_id = $1`, request)
	if err != nil {
		return nil, err
	}
	reasons := make(map[int]drops.Reason)
	var position int
	var reason drops.Reason
	_, err = pgx.ForEachRow(rows, []any{&position, &reason}, func() error { reasons[position] = reason; return nil })
	return reasons, err
}
