package inbox

import (
	"testing"
	"testing/synctest"
	"time"

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
		t.Fatalf("a lone entry with nobody at work: took %d", got)
	}
	go func() { l.taken <- len(l.take(256, 8<<20)) }()
	return l
}

func (l *line) add(deliveries int, bytes int64) {
	l.t.Helper()
	if !l.put(&entry{work: &providers.Work{Items: make([]providers.Item, deliveries)}, bytes: bytes, queue: l.queue}) {
		l.t.Fatal("refused")
	}
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

func TestATransactionBesideAnotherMustBeWorthIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]func(*line){
		"enough deliveries have gathered": func(l *line) {
			for range worthwhile - 1 {
				l.add(1, 10)
			}
			l.want(0)
			l.add(1, 10)
			l.want(worthwhile)
		},
		"one request has enough deliveries": func(l *line) {
			l.add(worthwhile, 10)
			l.want(1)
		},
		"enough bytes have gathered": func(l *line) {
			l.add(1, worthwhileBytes-1)
			l.want(0)
			l.add(1, 1)
			l.want(2)
		},
		"the other has ended": func(l *line) {
			l.add(1, 10)
			l.want(0)
			l.finished()
			l.want(1)
		},
		"the other takes long": func(l *line) {
			time.Sleep(long / 2)
			l.add(1, 10)
			time.Sleep(long/2 - 1)
			l.want(0)
			time.Sleep(time.Nanosecond)
			l.want(1)
		},
		"the other has taken long already": func(l *line) {
			time.Sleep(long)
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

func TestWhatIsLeftByOneTransactionIsTakenByTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		for range worthwhile {
			l.add(1, 10)
		}
		l.want(worthwhile) // two transactions are under way now
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
		time.Sleep(long)
		l.want(1)
	})
}
