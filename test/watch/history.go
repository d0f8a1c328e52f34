package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// History is the data that a Prometheus has on its disk when it starts.
type History struct{ text bytes.Buffer }

// Add writes one series: a value every minute between the two times, which begins with first and grows by step.
func (h *History) Add(series string, from, to time.Time, first, step float64) {
	for at, value := from, first; at.Before(to); at, value = at.Add(time.Minute), value+step {
		fmt.Fprintf(&h.text, "%s %g %d\n", series, value, at.Unix())
	}
}

// Write makes the blocks, in dir/data. The history must end some minutes before the first scrape: Prometheus rejects
// samples that are older than its last block.
func (h *History) Write(ctx context.Context, dir string) error {
	file := filepath.Join(dir, "history.txt")
	if err := os.WriteFile(file, append(h.text.Bytes(), "# EOF\n"...), 0o600); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	_, err := Promtool(ctx, nil, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h", file, filepath.Join(dir, "data"))
	return err
}
