package load

import (
	"fmt"
	"syscall"
	"time"
)

// sender is one thread that serves every connection. It speaks to the kernel directly: a runtime that wakes a
// goroutine for each answer would take as much processor time as the gateway that is measured.
type sender struct {
	spec     *Spec
	prepared *prepared
	result   Result
	times    *latencies

	epoll  int
	conns  []*conn // by file descriptor
	free   []*conn // at a Rate: those that wait for a request to be due
	events []syscall.EpollEvent
	in     []byte

	next   int // request to be sent
	flying int
	began  time.Time
	from   time.Time // what is measured lies between the two
	until  time.Time
	done   bool // nothing more is sent
}

// conn is one connection. A request is under way on it unless it is free.
type conn struct {
	fd      int
	to      syscall.SockaddrInet4
	buf     []byte // a copy of what requests have in common
	out     []byte // what is left to write
	answer  []byte // the beginning of an answer that is not whole
	busy    bool
	polling bool // for room to write
	since   time.Time
}

// grace is how long answers are waited for when everything is sent.
const grace = 10 * time.Second

func send(spec *Spec, p *prepared) (*Result, error) {
	most := p.n
	if spec.Repeat {
		most = 20 * p.n
	}
	s := &sender{
		spec: spec, prepared: p, times: newLatencies(most),
		result: Result{BodyBytes: p.bodyBytes, Refused: map[int]int{}},
		events: make([]syscall.EpollEvent, 256), in: make([]byte, 16<<10),
	}
	var err error
	if s.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	for i := range spec.Connections {
		c := &conn{buf: p.buffer()}
		if c.to, err = sockaddr(spec.Addresses[i%len(spec.Addresses)]); err != nil {
			return nil, err
		}
		if err := s.connect(c); err != nil {
			return nil, err
		}
		s.free = append(s.free, c)
	}
	before := cpuTime()
	if spec.Repeat {
		if err := s.once(); err != nil {
			return nil, err
		}
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	s.result.CPU = cpuTime() - before
	s.result.Broken += s.flying
	for ; s.spec.Rate > 0 && s.next < p.n && !s.due(s.next).After(s.until); s.next++ {
		s.result.Broken++ // due, and there was no connection to send it on
	}
	s.result.Elapsed = s.until.Sub(s.from)
	s.times.into(&s.result)
	return &s.result, nil
}

// once sends every request once, so that each is known from then on.
func (s *sender) once() error {
	s.from, s.until = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour) // nothing counts
	s.sendFree(s.from)
	for s.flying > 0 {
		if err := s.poll(time.Second); err != nil {
			return err
		}
	}
	s.next, s.done = 0, false
	return nil
}

func (s *sender) run() error {
	s.began = time.Now()
	s.from = s.began.Add(s.spec.Warm)
	s.until = s.from.Add(s.spec.Measure)
	s.sendFree(s.began)
	for {
		now := time.Now()
		if s.spec.Rate == 0 && !s.done && now.After(s.until) {
			s.done = true
		}
		if s.done && s.flying == 0 || now.After(s.until.Add(grace)) {
			return nil
		}
		wait := 50 * time.Millisecond
		if s.spec.Rate > 0 && !s.done {
			wait = min(max(s.due(s.next).Sub(now), 0), wait)
		}
		if err := s.poll(wait); err != nil {
			return err
		}
		s.sendFree(time.Now())
	}
}

// due is the instant at which the i-th request of a Rate is to be sent.
func (s *sender) due(i int) time.Time {
	return s.began.Add(time.Duration(float64(i) * float64(time.Second) / s.spec.Rate))
}

// sendFree sends on the connections that are free: at a Rate what is due, else all.
func (s *sender) sendFree(now time.Time) {
	paced := s.spec.Rate > 0 && !s.began.IsZero()
	for len(s.free) > 0 && !s.done {
		since := now
		if paced {
			since = s.due(s.next)
			if since.After(s.until) {
				s.done = true
			}
			if since.After(now) {
				return
			}
		}
		c := s.free[len(s.free)-1]
		if !s.begin(c, since) {
			return
		}
		s.free = s.free[:len(s.free)-1]
	}
}

// begin sends the next request on a connection. It reports false when there is none.
func (s *sender) begin(c *conn, since time.Time) bool {
	if s.next == s.prepared.n {
		if !s.spec.Repeat || s.began.IsZero() {
			s.runOut()
			return false
		}
		s.next = 0
	}
	c.out = s.prepared.request(s.next, c.buf)
	c.busy, c.since = true, since
	s.next++
	s.flying++
	s.result.AllSent++
	s.write(c)
	return true
}

func (s *sender) runOut() {
	s.done = true
	if s.began.IsZero() {
		return
	}
	if now := time.Now(); now.Before(s.until) {
		s.result.RanOut = true
		s.until = now
	}
}

func (s *sender) answered(c *conn, status int) {
	if len(c.out) > 0 { // an answer to half a request: what follows would be read as its other half
		s.broken(c)
		return
	}
	now := time.Now()
	c.busy = false
	s.flying--
	if status == 200 {
		s.result.AllOK++
		counted := now // when each connection sends as it can, answers count by when they come
		if s.spec.Rate > 0 {
			counted = c.since // at a rate, requests count by when they were due, however late the answer
		}
		if counted.After(s.from) && !counted.After(s.until) {
			s.result.Answered++
			s.times.add(now.Sub(c.since))
		}
	} else {
		s.result.Refused[status]++
	}
	s.freed(c, now)
}

// freed sends the next request, unless it must wait until it is due.
func (s *sender) freed(c *conn, now time.Time) {
	if s.done || s.spec.Rate > 0 && !s.began.IsZero() || !s.begin(c, now) {
		s.free = append(s.free, c)
	}
}
