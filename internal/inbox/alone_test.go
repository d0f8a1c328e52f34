package inbox

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"webhook-gateway/providers"
)

// A delivery that never gets its own attempt, because too many others are being tried, reports the batch's failure.
func TestBatchFailureReported(t *testing.T) {
	t.Parallel()
	b := &Inbox{running: t.Context(), alone: make(chan struct{}), log: slog.New(slog.DiscardHandler)} // there is no room to be settled alone
	work := &providers.Work{Request: &providers.Request{}, Items: make([]providers.Item, 1), Deadline: time.Now()}
	ended := make(chan []providers.Ending, 1)
	e := &entry{work: work, queue: newQueue(10, 1<<20), endings: make([]providers.Ending, 1), open: 1, done: func(ends []providers.Ending) { ended <- ends }}
	away := errors.New("PostgreSQL is away")
	b.settleEachAlone([]*row{newRow(e, 0)}, away)
	if ends := <-ended; !ends[0].Failed {
		t.Errorf("ended as %+v, want failed", ends[0])
	}
	if err := work.Trouble(); !errors.Is(err, away) {
		t.Errorf("told %v, want %v", err, away)
	}
}
