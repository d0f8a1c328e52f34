// Package export turns the deliveries and drops in a database into captures.
package export

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/registry"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// ErrNotFound says that neither a delivery nor a drop has the id.
var ErrNotFound = errors.New("neither a delivery nor a drop; its retention may have passed")

// Exporter makes captures. It is safe for concurrent use.
type Exporter struct {
	registry  *registry.Registry
	feed      *feed.Reader
	drops     *drops.Store
	vendors   map[string]providers.Provider
	keepToken bool
}

// New returns an exporter over the pool, which stays the caller's. keepToken leaves verification tokens in the bodies.
func New(pool *pgxpool.Pool, reg *registry.Registry, vendors map[string]providers.Provider, keepToken bool) *Exporter {
	return &Exporter{reg, feed.NewReader(pool), drops.NewStore(pool), vendors, keepToken}
}

// Capture makes a capture of the delivery or the drop with this id, or returns ErrNotFound.
func (e *Exporter) Capture(ctx context.Context, id uuid.UUID) (*capture.Capture, error) {
	row, err := e.feed.Find(ctx, id)
	if err == nil {
		return e.delivery(row)
	}
	if !errors.Is(err, feed.ErrNotFound) {
		return nil, err
	}
	kept, err := e.drops.Find(ctx, id)
	if errors.Is(err, drops.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return e.drop(ctx, kept)
}

// origin returns what a request of the provider comes from.
func (e *Exporter) origin(provider string) (capture.Origin, error) {
	p, ok := e.vendors[provider]
	if !ok {
		return capture.Origin{}, fmt.Errorf("its provider is %s, which this build does not have", provider)
	}
	return capture.Origin{Vendor: p, KeepToken: e.keepToken}, nil
}

func (e *Exporter) delivery(row feed.Delivery) (*capture.Capture, error) {
	origin, err := e.origin(row.Provider)
	if err != nil {
		return nil, err
	}
	job, ok := e.registry.Job(row.Provider, row.JobID)
	if !ok {
		return nil, errors.New("its job's source was removed, and with it the secret that signs it")
	}
	origin.Job = capture.PartyOf(job.ID.String(), job.Pins, job.Fallback)
	m := message(row.ContentType, row.ContentEncoding, row.Headers, row.ReceivedAt)
	m.Target = providers.JobPath(row.Provider, row.JobID)
	if s, ok := e.registry.SourceByID(job.SourceID); ok {
		origin.Source = capture.PartyOf(s.Name, s.Pins, false)
		m.Target = providers.SourcePath(row.Provider, s.Name)
	}
	body, alone := whole(origin.Vendor, row)
	m.Body = body
	c, err := origin.Capture(m)
	if err != nil {
		return nil, err
	}
	if alone {
		c.About = "one delivery of a request with several, in a separate request"
	}
	c.Describe(origin.Vendor)
	c.Name = name(row.Provider, row.EventType, row.ID)
	return c, nil
}

// name returns a capture's name. It ends with the random part of the id, which tells it from others of that moment.
func name(provider, kind string, id uuid.UUID) string {
	text := id.String()
	return fmt.Sprintf("%s-%s-%s", provider, capture.Slug(kind), text[len(text)-8:])
}

// message returns the stored parts of a request, without target and body.
func message(contentType, encoding, headers string, at time.Time) *capture.Message {
	m := &capture.Message{Method: http.MethodPost, At: at}
	for _, h := range []capture.Header{{"Content-Type", contentType}, {"Content-Encoding", encoding}} {
		if h[1] != "" {
			m.Headers = append(m.Headers, h)
		}
	}
	m.Headers = append(m.Headers, capture.StoredHeaders(headers)...)
	return m
}

// whole returns the body of a request that carries a stored delivery. A delivery of a batch was stored without the
// batch around it; alone reports that it was put into one again.
func whole(p providers.Provider, row feed.Delivery) (body []byte, alone bool) {
	_, id, _ := strings.Cut(row.DeliveryKey, "/")
	is := func(body []byte) bool {
		deliveries, err := p.Parse(row.ContentType, body)
		return err == nil && len(deliveries) == 1 && deliveries[0].VendorID == id
	}
	if row.ContentEncoding != "" || is(row.Body) {
		return row.Body, false
	}
	if b, ok := p.(providers.Batcher); ok {
		if batch := b.Batch(row.Body); is(batch) {
			return batch, true
		}
	}
	return row.Body, false // the vendor gives the delivery no id
}

func (e *Exporter) drop(ctx context.Context, kept drops.Kept) (*capture.Capture, error) {
	if kept.Body == nil {
		return nil, drops.ErrNotKept
	}
	origin, err := e.origin(kept.Provider)
	if err != nil {
		return nil, err
	}
	if jobs.VerifierKind(kept.VerifiedBy) == jobs.BySource {
		s, ok := e.registry.SourceByID(kept.VerifierID)
		if !ok {
			return nil, errors.New("the source that verified it was removed, and with it the secret that signs it")
		}
		origin.Source = capture.PartyOf(s.Name, s.Pins, false)
	}
	for _, job := range []uuid.UUID{kept.JobID, kept.PathJob} {
		if j, ok := e.registry.Job(kept.Provider, job); ok && origin.Job == nil && (origin.Source == nil || j.SourceID == kept.VerifierID) {
			origin.Job = capture.PartyOf(j.ID.String(), j.Pins, j.Fallback)
		}
	}
	m := message(kept.ContentType, kept.ContentEncoding, kept.Headers, kept.ReceivedAt)
	m.Body = kept.Body
	if m.Target = providers.DropPath(kept); m.Target == "" {
		m.Target = "/webhooks/" + kept.Provider + "/an-id-that-cannot-be-read"
	}
	c, err := origin.Capture(m)
	if err != nil {
		return nil, err
	}
	c.Name = name(kept.Provider, string(kept.Reason), kept.ID)
	reasons, err := e.drops.RequestReasons(ctx, kept.RequestID)
	if err != nil {
		return nil, err
	}
	deliveries := c.Deliveries(origin.Vendor)
	items := make([]providers.Item, max(len(deliveries), 1))
	for i := range items {
		if i < len(deliveries) {
			items[i].Delivery = deliveries[i]
		}
		if reason := reasons[i]; reason != drops.HashMismatch { // it depends on another delivery
			items[i].Reason = reason
		}
	}
	c.Expect = capture.ExpectItems(items)
	return c, nil
}
