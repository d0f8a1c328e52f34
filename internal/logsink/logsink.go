// Package logsink decouples requests from the log. A stalled reader fills the pipe of the log, which takes 64 KiB.
// Without this package every request would then block on its log line.
package logsink

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Most is the maximum size in bytes of waiting lines, apart from those that are being written: about four thousand
// lines. Further lines are lost and counted.
const Most = 1 << 20

// closeTimeout is how long Close waits for the underlying writer.
const closeTimeout = time.Second

// Sink buffers lines; a goroutine writes all that have gathered at once. It does not wait for more: a single line is
// written at once. It is safe for concurrent use.
type Sink struct {
	to   io.Writer
	lost prometheus.Counter
	done chan struct{}

	mu       sync.Mutex
	some     sync.Cond
	gathered []byte
	closed   bool
}

var _ io.WriteCloser = (*Sink)(nil)

// New returns a sink that writes to a writer. Close ends it. Its metric is registered with reg.
func New(to io.Writer, reg prometheus.Registerer) *Sink {
	s := &Sink{to: to, done: make(chan struct{}), lost: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_log_lines_lost_total",
		Help: "Log lines lost because the reader of the log is stalled or gone.",
	})}
	reg.MustRegister(s.lost)
	s.some.L = &s.mu
	go s.write()
	return s
}

// Write takes a whole line, or loses it. It never blocks and never fails.
func (s *Sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || len(s.gathered)+len(line) > Most:
		s.lost.Inc()
	default:
		s.gathered = append(s.gathered, line...)
		s.some.Signal()
	}
	return len(line), nil
}

// Close writes the buffered lines, and waits up to a second for that. Later lines are lost.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.some.Signal()
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(closeTimeout):
	}
	return nil
}

func (s *Sink) write() {
	defer close(s.done)
	var written []byte
	for {
		lines := s.take(written)
		if lines == nil {
			return
		}
		if _, err := s.to.Write(lines); err != nil {
			s.lost.Add(float64(bytes.Count(lines, []byte("\n")))) // approximate: some may have been written
		}
		written = lines
	}
}

// take waits for lines and replaces the buffer by an empty one. It returns nil once the sink is closed and everything
// is taken.
func (s *Sink) take(empty []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.gathered) == 0 {
		if s.closed {
			return nil
		}
		s.some.Wait()
		s.mu.Unlock()
		runtime.Gosched() // let other goroutines write first: one system call for all their lines
		s.mu.Lock()
	}
	lines := s.gathered
	s.gathered = empty[:0]
	return lines
}
