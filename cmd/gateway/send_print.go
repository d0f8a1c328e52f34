package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/internal/send"
)

// reportJSON is what send --json prints.
type reportJSON struct {
	Provider string        `json:"provider"`
	Type     string        `json:"type"`
	Method   string        `json:"method"`
	URL      string        `json:"url"`
	Sent     []answerJSON  `json:"sent"`
	Stored   []storedJSON  `json:"stored"`
	Dropped  []droppedJSON `json:"dropped"`
}

type answerJSON struct {
	Status int     `json:"status"`
	Body   string  `json:"body"`
	TookMS float64 `json:"took_ms"`
}

type storedJSON struct {
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

type droppedJSON struct {
	ID         uuid.UUID    `json:"id"`
	Reason     drops.Reason `json:"reason"`
	Detail     string       `json:"detail"`
	EventType  string       `json:"event_type"`
	Bytes      int          `json:"bytes"`
	ReceivedAt time.Time    `json:"received_at"`
}

func sentOut(r send.Request, kind string, result send.Result) reportJSON {
	out := reportJSON{Provider: r.Vendor.Name(), Type: kind, Method: r.Method(), URL: r.URL, Stored: []storedJSON{}, Dropped: []droppedJSON{}}
	for _, a := range result.Answers {
		out.Sent = append(out.Sent, answerJSON{a.Status, a.Body, milliseconds(a.Took)})
	}
	for _, s := range result.Stored {
		out.Stored = append(out.Stored, storedJSON{s.ID, s.OrganizationID, s.JobID, s.DeliveryKey, s.EventType, s.OrderingKey, s.RequestHash,
			s.ContentType, s.Bytes, s.ReceivedAt, s.StoredAt})
	}
	for _, d := range result.Dropped {
		out.Dropped = append(out.Dropped, droppedJSON{d.ID, d.Reason, d.Detail, d.EventType, len(d.Body), d.ReceivedAt})
	}
	return out
}

// printSent prints what was sent, answered and stored. A repeat shares the rows of the first.
func printSent(cmd *cobra.Command, r send.Request, kind string, result send.Result, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, sentOut(r, kind, result))
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s %s  (%s %s)\n", r.Method(), r.URL, r.Vendor.Name(), kind)
	for i, a := range result.Answers {
		if i == 10 {
			fmt.Fprintf(out, "… and %d more\n", len(result.Answers)-i)
			break
		}
		body := "empty body"
		if a.Body != "" {
			body = "body: " + safetext.Line(a.Body)
		}
		fmt.Fprintf(out, "%d %s in %.1f ms, %s\n", a.Status, http.StatusText(a.Status), milliseconds(a.Took), body)
	}
	w := newTable(out)
	for _, s := range result.Stored {
		w.gap()
		w.pairs("stored", s.ID, "organization", s.OrganizationID, "job", s.JobID, "type", s.EventType, "key", s.DeliveryKey,
			"ordering key", s.OrderingKey, "fingerprint", s.RequestHash, "content", fmt.Sprintf("%d bytes, %s", s.Bytes, s.ContentType),
			"received", s.ReceivedAt.Format(time.RFC3339Nano), "stored at", s.StoredAt.Format(time.RFC3339Nano))
	}
	for _, d := range result.Dropped {
		w.gap()
		w.pairs("dropped", d.ID, "reason", string(d.Reason)+" "+d.Detail, "type", d.EventType)
	}
	err := w.flush()
	switch {
	case err != nil:
	case r.Handshake:
		_, err = fmt.Fprintln(out, "\na handshake: answered, nothing is kept")
	case len(result.Answers) > 1 && len(result.Stored) > 0:
		_, err = fmt.Fprintf(out, "\nsent %d times, stored once: the others were duplicates, acknowledged and not kept\n", len(result.Answers))
	}
	return err
}
