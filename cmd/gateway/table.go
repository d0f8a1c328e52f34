package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"webhook-gateway/internal/safetext"
)

// table aligns rows for people. It escapes newlines and tabs in cells.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer) table {
	return table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

// row adds a row.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = safetext.Line(fmt.Sprint(c))
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// pairs adds a row for each name and value.
func (t table) pairs(namesAndValues ...any) {
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		t.row(namesAndValues[i], namesAndValues[i+1])
	}
}

// gap ends a block of rows: the next one has its own column widths.
func (t table) gap() { fmt.Fprintln(t.w) }

func (t table) flush() error { return t.w.Flush() }

// forBytes returns the stream for bytes that must not change; on a terminal their control characters are still escaped.
func forBytes(w io.Writer) io.Writer {
	if to := raw(w); !isTerminal(to) {
		return to
	}
	return w
}

// raw returns the stream under the one that makes text safe, for bytes that must not change.
func raw(w io.Writer) io.Writer {
	if s, ok := w.(*safetext.Writer); ok {
		return s.Raw()
	}
	return w
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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

// orNull returns nil, which is null in JSON, for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
