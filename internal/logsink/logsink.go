// Package logsink keeps a log that nobody reads from holding up a request. A pipe whose reader stands still
// takes 64 KiB and then nothing: whoever writes a line to it waits, and with him the answer that he was about
// to give.
package logsink

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Most is how many bytes of lines wait at most, beside those that are being written: some four thousand lines.
// What comes beyond is lost and counted.
const Most = 1 << 20

// patience is how long Close waits for the writer behind it.
const patience = time.Second

// Sink takes lines and has them written by a goroutine of its own, whatever has gathered in one piece. Nothing
// is held back to gather more: a lone line is written at once. It is safe for concurrent use.
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

// New returns a sink before a writer. Close ends it. Its metric is registered with reg.
func New(to io.Writer, reg prometheus.Registerer) *Sink {
	s := &Sink{to: to, done: make(chan struct{}), lost: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_log_lines_lost_total",
		Help: "Log lines that were not written, because whatever reads the log stands still or is gone.",
	})}
	reg.MustRegister(s.lost)
	s.some.L = &s.mu
	go s.write()
	return s
}

// Write takes one line, whole or not at all. It never waits and never fails.
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

// Close writes what has gathered, and waits a second for it. Lines that come later are lost.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	s.some.Signal()
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(patience):
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
			s.lost.Add(float64(bytes.Count(lines, []byte("\n")))) // about: some may have left
		}
		written = lines
	}
}

// take waits for lines and leaves an empty buffer in their place. It returns nil once the sink is closed and
// all is taken.
func (s *Sink) take(empty []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.gathered) == 0 {
		if s.closed {
			return nil
		}
		s.some.Wait()
		s.mu.Unlock()
		runtime.Gosched() // those who are about to write go first: one system call for all of theirs
		s.mu.Lock()
	}
	lines := s.gathered
	s.gathered = empty[:0]
	return lines
}
