package inbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// line is a queue with one transaction under way and a committer that takes from it.
type line struct {
	*queue
	t     *testing.T
	taken chan int // how many entries at once
}

func newLine(t *testing.T) *line {
	l := &line{queue: newQueue(1000, 64<<20), t: t, taken: make(chan int, 1)}
	l.add(1, 10)
	if got := len(l.take(256, 8<<20)); got != 1 {
		t.Fatalf("a lone entry with idle committers: took %d", got)
	}
	go func() { l.taken <- len(l.take(256, 8<<20)) }()
	return l
}

func (l *line) add(deliveries int, bytes int64) {
	l.t.Helper()
	if !l.put(l.entry(uuid.Nil, deliveries, bytes)) {
		l.t.Fatal("refused")
	}
}

func (l *line) entry(signer uuid.UUID, deliveries int, bytes int64) *entry {
	req := &providers.Request{VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: signer}}
	return &entry{work: &providers.Work{Request: req, Items: make([]providers.Item, deliveries)}, bytes: bytes, queue: l.queue}
}

func (l *line) want(entries int) {
	l.t.Helper()
	synctest.Wait()
	select {
	case got := <-l.taken:
		if got != entries {
			l.t.Errorf("took %d entries, want %d", got, entries)
		}
	default:
		if entries != 0 {
			l.t.Errorf("took nothing, want %d entries", entries)
			l.close()
			<-l.taken
		}
	}
}

func TestWhenSecondTransactionStarts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]func(*line){
		"enough deliveries have gathered": func(l *line) {
			for range minConcurrentBatch - 1 {
				l.add(1, 10)
			}
			l.want(0)
			l.add(1, 10)
			l.want(minConcurrentBatch)
		},
		"one request has enough deliveries": func(l *line) {
			l.add(minConcurrentBatch, 10)
			l.want(1)
		},
		"enough bytes have gathered": func(l *line) {
			l.add(1, largeWork-1)
			l.add(1, largeWork-1)
			l.add(1, largeWork-1)
			l.add(1, largeWork-1)
			l.want(0)
			l.add(1, 4)
			l.want(5)
		},
		"the other has ended": func(l *line) {
			l.add(1, 10)
			l.want(0)
			l.finished()
			l.want(1)
		},
		"the other takes long": func(l *line) {
			time.Sleep(maxBatchWait / 2)
			l.add(1, 10)
			time.Sleep(maxBatchWait/2 - 1)
			l.want(0)
			time.Sleep(time.Nanosecond)
			l.want(1)
		},
		"the other has taken long already": func(l *line) {
			time.Sleep(maxBatchWait)
			l.add(1, 10)
			l.want(1)
		},
		"the queue is closed": func(l *line) {
			l.add(1, 10)
			l.want(0)
			l.close()
			l.want(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { tt(newLine(t)) })
		})
	}
}

func TestNextTransactionTakesRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		for range minConcurrentBatch {
			l.add(1, 10)
		}
		l.want(minConcurrentBatch) // two transactions are under way now
		go func() { l.taken <- len(l.take(2, 8<<20)) }()
		for range 3 {
			l.add(1, 10)
		}
		l.want(0)
		l.finished()
		l.want(0)
		l.finished()
		l.want(2)
		go func() { l.taken <- len(l.take(2, 8<<20)) }()
		time.Sleep(maxBatchWait)
		l.want(1)
	})
}

func TestSmallBeforeLarge(t *testing.T) {
	t.Parallel()
	q := newQueue(1000, 64<<20)
	l := &line{queue: q, t: t}
	for range 5 {
		l.add(1, 4<<20)
	}
	for range 3 {
		l.add(1, 1000)
	}
	var got []int
	for range 6 {
		got = append(got, len(q.take(256, 4<<20)))
		q.finished()
	}
	if want := []int{3, 1, 1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("transactions of %v, want the three small ones together, first: %v", got, want)
	}
	for range 2 {
		l.add(1, 4<<20)
		l.add(1, 1000)
	}
	var sizes []int64
	for range 4 {
		sizes = append(sizes, q.take(1, 4<<20)[0].bytes)
		q.finished()
	}
	if want := []int64{1000, 4 << 20, 1000, 4 << 20}; !slices.Equal(sizes, want) {
		t.Errorf("transactions of %v bytes, want the lanes in turn", sizes)
	}
}

func TestLargeWorkIsShared(t *testing.T) {
	t.Parallel()
	const most, size = 64 << 20, 4 << 20
	l := &line{queue: newQueue(1000, most), t: t}
	one, two := uuid.New(), uuid.New()
	fill := func(signer uuid.UUID) (taken []*entry) {
		for e := l.entry(signer, 1, size); l.put(e); e = l.entry(signer, 1, size) {
			taken = append(taken, e)
		}
		return taken
	}
	first, second := fill(one), fill(two)
	if len(first) != most/2/size || len(second) != most/4/size {
		t.Errorf("one signer holds %d large ones and the next one %d, want a half and a quarter of the queue", len(first), len(second))
	}
	if l.full() {
		t.Error("large ones fill the queue")
	}
	l.add(1, 1000)
	for _, e := range first {
		l.release(e)
	}
	if again := fill(two); len(again) != most/4/size {
		t.Errorf("%d more by the second when the first one's are gone, want up to its half", len(again))
	}
}
