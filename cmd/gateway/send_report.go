package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/safetext"
	"webhook-gateway/providers"
)

// report is what came of sending a sample.
type report struct {
	Provider string       `json:"provider"`
	Type     string       `json:"type"`
	Method   string       `json:"method"`
	URL      string       `json:"url"`
	Sent     []sent       `json:"sent"`
	Stored   []storedRow  `json:"stored"`
	Dropped  []droppedRow `json:"dropped"`

	handshake bool
	answer    string
}

// storedRow is a row of the inbox.
type storedRow struct {
	ID           uuid.UUID `json:"id"`
	Organization uuid.UUID `json:"organization_id"`
	Job          uuid.UUID `json:"job_id"`
	Key          string    `json:"delivery_key"`
	EventType    string    `json:"event_type"`
	OrderingKey  string    `json:"ordering_key"`
	RequestHash  string    `json:"request_hash"`
	ContentType  string    `json:"content_type"`
	Bytes        int       `json:"bytes"`
	ReceivedAt   time.Time `json:"received_at"`
	StoredAt     time.Time `json:"stored_at"`
}

// droppedRow is a row of the drops.
type droppedRow struct {
	ID         uuid.UUID `json:"id"`
	Reason     string    `json:"reason"`
	Detail     string    `json:"detail"`
	EventType  string    `json:"event_type"`
	Bytes      int       `json:"bytes"`
	ReceivedAt time.Time `json:"received_at"`
}

// Samples are unique, so the body finds its rows. The id, which begins with the time of receipt, bounds
// how far the primary key is read.
const selectStored = `
SELECT id, organization_id, job_id, delivery_key, event_type, ordering_key, request_hash, content_type,
       octet_length(body), received_at, stored_at
  FROM agent.webhook_deliveries
 WHERE id >= $1 AND provider = $2 AND body = ANY($3)
 ORDER BY id`

const selectDropped = `
SELECT id, reason, detail, event_type, coalesce(octet_length(body), 0), received_at
  FROM agent.webhook_drops
 WHERE id >= $1 AND provider = $2 AND body = ANY($3)
 ORDER BY id`

// look reads what was stored of the bodies that were sent since began.
func (r *report) look(ctx context.Context, pool *pgxpool.Pool, s sample, bodies [][]byte, began time.Time) error {
	since := idSince(began.Add(-time.Minute)) // the gateway's clock may be another
	rows, err := pool.Query(ctx, selectStored, since, r.Provider, parts(r.Provider, s.contentType, bodies))
	if err == nil {
		r.Stored, err = pgx.CollectRows(rows, pgx.RowToStructByPos[storedRow])
	}
	if err != nil {
		return fmt.Errorf("read the stored row: %w", err)
	}
	rows, err = pool.Query(ctx, selectDropped, since, r.Provider, bodies)
	if err == nil {
		r.Dropped, err = pgx.CollectRows(rows, pgx.RowToStructByPos[droppedRow])
	}
	if err != nil {
		return fmt.Errorf("read the drop: %w", err)
	}
	return nil
}

// parts lists what is stored of the bodies: each whole, or its deliveries one by one.
func parts(provider, contentType string, bodies [][]byte) [][]byte {
	var list [][]byte
	for _, p := range wired() {
		if p.Name() != provider {
			continue
		}
		for _, body := range bodies {
			deliveries, err := p.Parse(contentType, body)
			if err != nil {
				deliveries = []providers.Delivery{{}}
			}
			for _, d := range deliveries {
				if d.Body == nil {
					d.Body = body
				}
				list = append(list, d.Body)
			}
		}
	}
	return list
}

// idSince is the smallest UUIDv7 of that time.
func idSince(t time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id
}

// print shows the report. The rows of a repeat are those of the first.
func (r *report) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		if r.Stored == nil {
			r.Stored = []storedRow{}
		}
		if r.Dropped == nil {
			r.Dropped = []droppedRow{}
		}
		return printJSON(cmd, r)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s %s  (%s %s)\n", r.Method, r.URL, r.Provider, r.Type)
	for i, a := range r.Sent {
		if i == 10 {
			fmt.Fprintf(out, "… and %d more\n", len(r.Sent)-i)
			break
		}
		body := "empty body"
		if a.Body != "" {
			body = "body: " + safetext.Line(a.Body)
		}
		fmt.Fprintf(out, "%d %s in %.1f ms, %s\n", a.Status, http.StatusText(a.Status), a.TookMS, body)
	}
	w := newTable(out)
	for _, s := range r.Stored {
		w.gap()
		w.pairs("stored", s.ID, "organization", s.Organization, "job", s.Job, "type", s.EventType, "key", s.Key,
			"ordering key", s.OrderingKey, "fingerprint", s.RequestHash, "content", fmt.Sprintf("%d bytes, %s", s.Bytes, s.ContentType),
			"received", s.ReceivedAt.Format(time.RFC3339Nano), "stored at", s.StoredAt.Format(time.RFC3339Nano))
	}
	for _, d := range r.Dropped {
		w.gap()
		w.pairs("dropped", d.ID, "reason", d.Reason+" "+d.Detail, "type", d.EventType)
	}
	if err := w.flush(); err != nil {
		return err
	}
	return r.printSummary(cmd)
}

func (r *report) printSummary(cmd *cobra.Command) error {
	var err error
	switch {
	case r.handshake:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "\na handshake: answered, and nothing of it is kept")
	case len(r.Sent) > 1 && len(r.Stored) > 0:
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nsent %d times, stored once: the others were duplicates, acknowledged and not kept\n", len(r.Sent))
	}
	return err
}

// verdict is an error unless the sample was received as it should be.
func (r *report) verdict() error {
	for _, a := range r.Sent {
		if a.Status != http.StatusOK {
			return fmt.Errorf("the gateway answers %d: %s", a.Status, meaning(a.Status))
		}
		if a.Body != r.answer {
			return fmt.Errorf("the gateway answers 200 with %q, and %q is what the vendor waits for", a.Body, r.answer)
		}
	}
	if !r.handshake && len(r.Stored) == 0 && len(r.Dropped) == 0 {
		return errors.New("acknowledged, but neither a stored row nor a drop is in this database: is it the gateway's own?")
	}
	return nil
}

// meaning says what a vendor is told with a status, and where to look.
func meaning(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the signature is not one of this source or job: does the gateway use this database?"
	case http.StatusRequestEntityTooLarge:
		return "the body is over GATEWAY_MAX_BODY_BYTES"
	case http.StatusServiceUnavailable:
		return "call again later: no secret yet, a rotation declared open, or PostgreSQL does not keep up; its log says which"
	case http.StatusNotFound:
		return "there is no such URL: is the --target a gateway?"
	default:
		return "this is not how a gateway answers: is the --target one?"
	}
}
