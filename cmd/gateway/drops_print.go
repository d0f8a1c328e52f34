package main

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
)

const bodyNotKept = "the request was not kept: more than 100 drops of its source or job and reason that minute"

// How much of a body is shown to people. --body has all of it.
const (
	maxShownText = 1 << 20 // bytes, after inflating
	maxShownHex  = 4 << 10
)

// dropJSON is a drop as --json prints it. What is not known is null.
type dropJSON struct {
	ID             uuid.UUID    `json:"id"`
	Reason         drops.Reason `json:"reason"`
	Detail         string       `json:"detail"`
	Provider       string       `json:"provider"`
	OrganizationID *uuid.UUID   `json:"organization_id"`
	JobID          *uuid.UUID   `json:"job_id"`
	VerifiedBy     string       `json:"verified_by"` // whose secret: source or job
	VerifierID     uuid.UUID    `json:"verifier_id"`
	Path           *string      `json:"path"` // what the vendor called; null for an id that cannot be read
	RequestID      uuid.UUID    `json:"request_id"`
	Position       int          `json:"position"`
	DeliveryKey    string       `json:"delivery_key"`
	EventType      string       `json:"event_type"`
	RequestHash    string       `json:"request_hash"`
	Count          int          `json:"count"`
	ReceivedAt     time.Time    `json:"received_at"`
	StoredAt       time.Time    `json:"stored_at"`
}

// dropShownJSON is a drop with its request. Without one, the fields of the request are null.
type dropShownJSON struct {
	dropJSON
	Headers         json.RawMessage `json:"headers"` // [[name, value], …]
	ContentType     *string         `json:"content_type"`
	ContentEncoding *string         `json:"content_encoding"`
	Body            []byte          `json:"body"`      // base64 of the bytes of the wire
	BodyText        *string         `json:"body_text"` // inflated; null when it is no text, or larger than 1 MiB
}

func dropOut(k drops.Kept) dropJSON {
	out := dropJSON{
		ID: k.ID, Reason: k.Reason, Detail: k.Detail, Provider: k.Provider,
		OrganizationID: orNull(k.OrganizationID), JobID: orNull(k.JobID),
		VerifiedBy: k.VerifiedBy, VerifierID: k.VerifierID,
		RequestID: k.RequestID, Position: k.Position, DeliveryKey: k.DeliveryKey, EventType: k.EventType,
		RequestHash: k.RequestHash, Count: k.Count, ReceivedAt: k.ReceivedAt.UTC(), StoredAt: k.StoredAt.UTC(),
	}
	out.Path = orNull(dropPath(k))
	return out
}

func dropShownOut(k drops.Kept) dropShownJSON {
	out := dropShownJSON{dropJSON: dropOut(k), Body: k.Body}
	if k.Body == nil {
		return out
	}
	out.Headers, out.ContentType, out.ContentEncoding = json.RawMessage(k.Headers), &k.ContentType, &k.ContentEncoding
	if body, whole := inflated(k); whole && isText(body) {
		text := string(body)
		out.BodyText = &text
	}
	return out
}

// dropPath is what the vendor called; empty when its id cannot be read.
func dropPath(k drops.Kept) string {
	switch {
	case k.PathSource != "":
		return sourcePath(k.Provider, k.PathSource)
	case k.PathJob != uuid.Nil:
		return "/webhooks/" + k.Provider + "/" + k.PathJob.String()
	default:
		return ""
	}
}

func printDrops(cmd *cobra.Command, list []drops.Kept, more, asJSON bool) error {
	if asJSON {
		out := make([]dropJSON, len(list))
		for i, k := range list {
			out[i] = dropOut(k)
		}
		return printJSON(cmd, map[string]any{"drops": out, "more": more})
	}
	if len(list) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no drops")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RECEIVED\tPROVIDER\tREASON\tCOUNT\tEVENT\tID\tDETAIL")
	for _, k := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", k.ReceivedAt.UTC().Format(time.RFC3339), k.Provider, k.Reason,
			k.Count, orDash(harmless(k.EventType)), k.ID, harmless(k.Detail))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are more than these %d; raise --limit or narrow the list\n", len(list))
	}
	return nil
}

// printDrop shows a drop to people. What came off the wire must not reach a terminal as it is: a control
// sequence in it could rewrite what is on the screen.
func printDrop(out io.Writer, k drops.Kept) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"drop", k.ID.String()},
		{"reason", string(k.Reason)},
		{"detail", harmless(k.Detail)},
		{"provider", k.Provider},
		{"path", dropPath(k)},
		{"verified by", k.VerifiedBy + " " + k.VerifierID.String()},
		{"organization", idText(k.OrganizationID)},
		{"job", idText(k.JobID)},
		{"delivery key", harmless(k.DeliveryKey)},
		{"event type", harmless(k.EventType)},
		{"content hash", harmless(k.RequestHash)},
		{"request", fmt.Sprintf("%s, position %d", k.RequestID, k.Position)},
		{"stands for", fmt.Sprintf("%d drops", k.Count)},
		{"received", k.ReceivedAt.UTC().Format(time.RFC3339Nano)},
		{"stored", k.StoredAt.UTC().Format(time.RFC3339Nano)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], orDash(line[1]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if k.Body == nil {
		_, err := fmt.Fprintln(out, "\n"+bodyNotKept)
		return err
	}
	fmt.Fprintf(out, "\ncontent-type: %s\n", harmless(k.ContentType))
	if k.ContentEncoding != "" {
		fmt.Fprintf(out, "content-encoding: %s\n", harmless(k.ContentEncoding))
	}
	for _, h := range headerPairs(k.Headers) {
		fmt.Fprintf(out, "%s: %s\n", harmless(h[0]), harmless(h[1]))
	}
	fmt.Fprintf(out, "\nbody, %d bytes on the wire:\n\n", len(k.Body))
	return printBody(out, k)
}

// printBody writes the body as text, or else the bytes of the wire as a hex dump.
func printBody(out io.Writer, k drops.Kept) error {
	body, whole := inflated(k)
	if isText(body) {
		fmt.Fprintf(out, "%s\n", body)
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

// inflated returns the body without its content encoding, up to maxShownText bytes, and whether that is all
// of it. What cannot be inflated is returned as it came.
func inflated(k drops.Kept) (body []byte, whole bool) {
	body = k.Body
	if encoding := strings.ToLower(strings.TrimSpace(k.ContentEncoding)); encoding == "gzip" || encoding == "x-gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(k.Body)); err == nil {
			plain, err := io.ReadAll(io.LimitReader(z, maxShownText+utf8.UTFMax))
			if err == nil {
				body = plain
			}
		}
	}
	if len(body) <= maxShownText {
		return body, true
	}
	cut := maxShownText
	for cut > maxShownText-utf8.UTFMax && !utf8.RuneStart(body[cut]) {
		cut--
	}
	return body[:cut], false
}

// isText reports whether the body may be written to a terminal as it is.
func isText(body []byte) bool {
	body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")) // a bare \r would overwrite its line
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		if r == utf8.RuneError && size == 1 || r != '\n' && r != '\t' && !isHarmless(r) {
			return false
		}
		body = body[size:]
	}
	return true
}

// harmless escapes what must not reach a terminal inside a line.
func harmless(s string) string {
	var out strings.Builder
	for _, r := range s {
		if isHarmless(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// isHarmless allows what is drawn, and the joiners within it. Not controls, nor what turns the direction of
// the text around it.
func isHarmless(r rune) bool {
	return unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Bidi_Control, r)
}

// headerPairs reads kept headers. Nothing else writes them, so a form that cannot be read is shown as it is.
func headerPairs(text string) [][2]string {
	var pairs [][2]string
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return [][2]string{{"headers", text}}
	}
	return pairs
}

func idText(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// orNull is nil, and so null in JSON, for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
