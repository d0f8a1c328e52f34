package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/clash"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/providers"
)

// The maximum of a body that is shown; --body writes all of it.
const (
	maxShownText = 1 << 20 // bytes, after inflating
	maxShownHex  = 4 << 10
)

// dropJSON is a drop as --json prints it. Unknown values are null.
type dropJSON struct {
	ID             uuid.UUID    `json:"id"`
	Reason         drops.Reason `json:"reason"`
	Detail         string       `json:"detail"`
	Provider       string       `json:"provider"`
	OrganizationID *uuid.UUID   `json:"organization_id"`
	JobID          *uuid.UUID   `json:"job_id"`
	VerifiedBy     string       `json:"verified_by"` // whose secret: source or job
	VerifierID     uuid.UUID    `json:"verifier_id"`
	Path           *string      `json:"path"` // of the URL; null if its id cannot be read
	RequestID      uuid.UUID    `json:"request_id"`
	Position       int          `json:"position"`
	DeliveryKey    string       `json:"delivery_key"`
	EventType      string       `json:"event_type"`
	RequestHash    string       `json:"request_hash"`
	Count          int          `json:"count"`
	ReceivedAt     time.Time    `json:"received_at"`
	StoredAt       time.Time    `json:"stored_at"`
	Redrives       []drivenJSON `json:"redrives"` // the oldest first
}

// drivenJSON is one redrive of a drop.
type drivenJSON struct {
	At         time.Time      `json:"at"`
	By         string         `json:"by"`
	Why        string         `json:"why"`
	Outcome    *drops.Outcome `json:"outcome"` // null: begun, but its end was not recorded
	Detail     string         `json:"detail"`
	DeliveryID *uuid.UUID     `json:"delivery_id"`
}

func drivenOut(redrives []drops.Redrive) []drivenJSON {
	out := make([]drivenJSON, len(redrives))
	for i, r := range redrives {
		out[i] = drivenJSON{
			At: r.At.UTC(), By: r.By, Why: r.Why, Outcome: orNull(r.Outcome), Detail: r.Detail, DeliveryID: orNull(r.Delivery),
		}
	}
	return out
}

// dropShownJSON is a drop with its request. Without one, the fields of the request are null.
type dropShownJSON struct {
	dropJSON
	Headers         json.RawMessage `json:"headers"` // [[name, value], …]
	ContentType     *string         `json:"content_type"`
	ContentEncoding *string         `json:"content_encoding"`
	Body            []byte          `json:"body"`      // base64 of the raw body
	BodyText        *string         `json:"body_text"` // inflated; null if it is binary, or larger than 1 MiB
	Clash           *clash.Clash    `json:"clash"`     // of a hash_mismatch: the delivery it conflicts with
}

// shown is one drop and everything to show with it.
type shown struct {
	drops.Kept
	redrives []drops.Redrive
	clash    *clash.Clash // only of a hash_mismatch
}

func dropOut(k drops.Kept, redrives []drops.Redrive) dropJSON {
	return dropJSON{
		ID: k.ID, Reason: k.Reason, Detail: k.Detail, Provider: k.Provider,
		OrganizationID: orNull(k.OrganizationID), JobID: orNull(k.JobID),
		VerifiedBy: k.VerifiedBy, VerifierID: k.VerifierID, Path: orNull(providers.DropPath(k)), Redrives: drivenOut(redrives),
		RequestID: k.RequestID, Position: k.Position, DeliveryKey: k.DeliveryKey, EventType: k.EventType,
		RequestHash: k.RequestHash, Count: k.Count, ReceivedAt: k.ReceivedAt.UTC(), StoredAt: k.StoredAt.UTC(),
	}
}

func dropShownOut(d shown) dropShownJSON {
	k := d.Kept
	out := dropShownJSON{dropJSON: dropOut(k, d.redrives), Body: k.Body, Clash: d.clash}
	if k.Body == nil {
		return out
	}
	out.Headers, out.ContentType, out.ContentEncoding = json.RawMessage(k.Headers), &k.ContentType, &k.ContentEncoding
	if body, whole := inflated(k); whole && safetext.Text(body) {
		out.BodyText = new(string(body))
	}
	return out
}

func printDrops(cmd *cobra.Command, list []drops.Kept, redrives map[uuid.UUID][]drops.Redrive, more, asJSON bool) error {
	if asJSON {
		out := make([]dropJSON, len(list))
		for i, k := range list {
			out[i] = dropOut(k, redrives[k.ID])
		}
		return printJSON(cmd, map[string]any{"drops": out, "more": more})
	}
	if len(list) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no drops")
		return nil
	}
	w := newTable(cmd.OutOrStdout())
	w.row("RECEIVED", "PROVIDER", "REASON", "COUNT", "REDRIVEN", "EVENT", "ID", "DETAIL")
	for _, k := range list {
		redriven := "-"
		if all := redrives[k.ID]; len(all) > 0 {
			redriven = string(cmp.Or(all[len(all)-1].Outcome, "begun"))
		}
		w.row(k.ReceivedAt.UTC().Format(time.RFC3339), k.Provider, k.Reason, k.Count, redriven, orDash(k.EventType), k.ID, k.Detail)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are more than these %d; raise --limit or narrow the list\n", len(list))
	}
	return nil
}

func printDrop(out io.Writer, d shown) error {
	k := d.Kept
	w := newTable(out)
	for _, line := range [][2]string{
		{"drop", k.ID.String()},
		{"reason", string(k.Reason)},
		{"detail", k.Detail},
		{"provider", k.Provider},
		{"path", providers.DropPath(k)},
		{"verified by", k.VerifiedBy + " " + k.VerifierID.String()},
		{"organization", idText(k.OrganizationID)},
		{"job", idText(k.JobID)},
		{"delivery key", k.DeliveryKey},
		{"event type", k.EventType},
		{"content hash", k.RequestHash},
		{"request", fmt.Sprintf("%s, position %d", k.RequestID, k.Position)},
		{"stands for", fmt.Sprintf("%d drops", k.Count)},
		{"received", k.ReceivedAt.UTC().Format(time.RFC3339Nano)},
		{"stored", k.StoredAt.UTC().Format(time.RFC3339Nano)},
	} {
		w.row(line[0], orDash(line[1]))
	}
	for _, r := range d.redrives {
		w.row("redriven", redriveText(r))
	}
	if err := w.flush(); err != nil {
		return err
	}
	if d.clash != nil {
		printClash(out, d.clash)
	}
	if k.Body == nil {
		_, err := fmt.Fprintf(out, "\n%s\n", drops.ErrNotKept)
		return err
	}
	fmt.Fprintf(out, "\ncontent-type: %s\n", safetext.Line(k.ContentType))
	if k.ContentEncoding != "" {
		fmt.Fprintf(out, "content-encoding: %s\n", safetext.Line(k.ContentEncoding))
	}
	for _, h := range capture.StoredHeaders(k.Headers) {
		fmt.Fprintf(out, "%s: %s\n", safetext.Line(h[0]), safetext.Line(h[1]))
	}
	fmt.Fprintf(out, "\nbody, %d bytes as received:\n\n", len(k.Body))
	return printBody(out, k)
}

func printClash(out io.Writer, c *clash.Clash) {
	if c.DeliveryID != nil {
		fmt.Fprintf(out, "\nits key was claimed for delivery %s, received %s\n", c.DeliveryID, c.ReceivedAt.Format(time.RFC3339Nano))
	}
	if c.Note != nil {
		fmt.Fprintln(out, *c.Note)
	}
	if c.Differ == 0 {
		return
	}
	fmt.Fprintln(out, "what differs (- is in the inbox, + was dropped):")
	side := func(mark string, text *string) {
		if text == nil {
			text = new("(absent)")
		}
		fmt.Fprintf(out, "    %s %s\n", mark, safetext.Line(*text))
	}
	for _, d := range c.Differences {
		fmt.Fprintf(out, "  %s\n", safetext.Line(d.Path))
		side("-", d.Inbox)
		side("+", d.Dropped)
	}
	if more := c.Differ - len(c.Differences); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// redriveText describes a redrive in one line.
func redriveText(r drops.Redrive) string {
	text := fmt.Sprintf("%s by %s (%s): %s", r.At.UTC().Format(time.RFC3339), r.By, r.Why,
		cmp.Or(string(r.Outcome), "begun, but its end was not recorded"))
	if r.Detail != "" {
		text += ", " + r.Detail
	}
	if r.Delivery != uuid.Nil {
		text += ", as delivery " + r.Delivery.String()
	}
	return text
}

// printBody writes the body as text, or the raw body as a hex dump.
func printBody(out io.Writer, k drops.Kept) error {
	body, whole := inflated(k)
	if safetext.Text(body) {
		fmt.Fprintf(out, "%s\n", bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")))
		if !whole {
			fmt.Fprintf(out, "\n(cut after %d bytes; --body writes all of it)\n", maxShownText)
		}
		return nil
	}
	shown := k.Body[:min(len(k.Body), maxShownHex)]
	fmt.Fprint(out, hex.Dump(shown))
	if len(shown) < len(k.Body) {
		fmt.Fprintf(out, "\n(cut after %d bytes; --body writes all of it)\n", maxShownHex)
	}
	return nil
}

// inflated returns up to maxShownText bytes of the body, inflated, and whether that is all of it.
func inflated(k drops.Kept) (body []byte, whole bool) {
	body, whole = providers.Readable(k.ContentEncoding, k.Body, maxShownText)
	if whole {
		return body, true
	}
	cut := maxShownText
	for cut > maxShownText-utf8.UTFMax && !utf8.RuneStart(body[cut]) {
		cut--
	}
	return body[:cut], false
}
