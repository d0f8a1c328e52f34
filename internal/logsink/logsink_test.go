package logsink_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"webhook-gateway/internal/logsink"
)

// pipe is what reads the log. It takes a write once it is open, and fails it if there is an error.
type pipe struct {
	open  chan struct{}
	fails error

	mu     sync.Mutex
	pieces []string
}

func newPipe() *pipe { return &pipe{open: make(chan struct{})} }

func (p *pipe) Write(b []byte) (int, error) {
	<-p.open
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pieces = append(p.pieces, string(b))
	return len(b), p.fails
}

func (p *pipe) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.pieces, "")
}

func wantLost(t *testing.T, reg *prometheus.Registry, want int) {
	t.Helper()
	err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(`
		# HELP gateway_log_lines_lost_total Log lines lost because the reader of the log is stalled or gone.
		# TYPE gateway_log_lines_lost_total counter
		gateway_log_lines_lost_total %d
		`, want)))
	if err != nil {
		t.Error(err)
	}
}

func TestWritesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, p := prometheus.NewRegistry(), newPipe()
		close(p.open)
		s := logsink.New(p, reg)
		began := time.Now()
		fmt.Fprintln(s, "one")
		synctest.Wait()
		fmt.Fprintln(s, "two")
		fmt.Fprintln(s, "three")
		synctest.Wait()
		if got := p.text(); got != "one\ntwo\nthree\n" || time.Since(began) != 0 {
			t.Errorf("after %v: %q", time.Since(began), got)
		}
		_ = s.Close()
		fmt.Fprintln(s, "too late")
		wantLost(t, reg, 1)
	})
}

func TestStalledReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, p := prometheus.NewRegistry(), newPipe()
		s := logsink.New(p, reg)
		line := strings.Repeat("x", 1023) + "\n"
		fmt.Fprint(s, line)
		synctest.Wait() // it is stuck with the first
		for range logsink.Most/1024 + 5 {
			fmt.Fprint(s, line)
		}
		wantLost(t, reg, 5)
		close(p.open)
		synctest.Wait()
		if got, want := p.text(), strings.Repeat(line, logsink.Most/1024+1); got != want {
			t.Errorf("%d bytes were written once it went on, want the %d that waited", len(got), len(want))
		}
		fmt.Fprintln(s, "after")
		_ = s.Close()
		if !strings.HasSuffix(p.text(), "\nafter\n") {
			t.Error("the line after it is not written")
		}
		wantLost(t, reg, 5)
	})
}

func TestCloseFlushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipe()
		s := logsink.New(p, prometheus.NewRegistry())
		fmt.Fprintln(s, "last words")
		began := time.Now()
		_ = s.Close()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited %v for a reader that stands still, want a second", waited)
		}
		close(p.open)
		synctest.Wait()
		if got := p.text(); got != "last words\n" {
			t.Errorf("written: %q", got)
		}
	})
}

func TestCountsFailedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, p := prometheus.NewRegistry(), newPipe()
		p.fails = errors.New("broken pipe")
		s := logsink.New(p, reg)
		fmt.Fprintln(s, "one")
		synctest.Wait()
		fmt.Fprintln(s, "two")
		close(p.open)
		_ = s.Close()
		wantLost(t, reg, 2)
	})
}
