package load

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// grace is how long the sender waits for answers after the last request.
const grace = 10 * time.Second

// sender sends the prepared requests. Each connection has a goroutine, which costs about as much processor time
// as one thread that polls all of them: 7 µs a request in place of 6.
type sender struct {
	spec     *Spec
	prepared *prepared

	next        atomic.Int64 // the request that is sent next
	began, from time.Time
	until       atomic.Int64 // measured is what lies between from and this, in Unix nanoseconds
	ranOut      atomic.Bool
	due         chan int // at a Rate: requests whose time has come
}

// conn is one connection, and the answers to its requests.
type conn struct {
	net.Conn
	address  string
	deadline time.Time
	buf      []byte // a copy of the requests' common bytes
	in       [1 << 10]byte
	result   Result
	times    latencies
}

func send(spec *Spec, p *prepared) (*Result, error) {
	s := &sender{spec: spec, prepared: p}
	var conns []*conn
	for i := range spec.Connections {
		c := &conn{deadline: time.Now().Add(time.Minute), address: spec.Addresses[i%len(spec.Addresses)], buf: p.buffer(), result: Result{Refused: map[int]int{}}}
		if err := checkAddress(c.address); err != nil {
			return nil, err
		}
		if err := c.connect(); err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
	}
	before := cpuTime()
	if spec.Repeat { // every request once before anything counts
		s.from = time.Now().Add(time.Hour)
		s.until.Store(s.from.Add(time.Hour).UnixNano())
		s.each(conns, s.once)
	}
	s.began = time.Now()
	s.from = s.began.Add(spec.Warm)
	s.until.Store(s.from.Add(spec.Measure).UnixNano())
	for _, c := range conns {
		c.deadline = s.from.Add(spec.Measure + grace)
		_ = c.SetDeadline(c.deadline) // it only fails for a closed connection
	}
	if spec.Rate > 0 {
		runtime.GOMAXPROCS(2) // one of them for the pacing goroutine
		s.due = make(chan int, p.n)
		go s.pace()
		s.each(conns, s.atRate)
	} else {
		s.next.Store(0)
		s.each(conns, s.freely)
	}
	return s.sum(conns, cpuTime()-before), nil
}

// each sends on all connections until take has no further request.
func (s *sender) each(conns []*conn, take func() (i int, since time.Time, ok bool)) {
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() {
			for {
				i, since, ok := take()
				if !ok {
					return
				}
				status, err := c.roundTrip(s.prepared.request(i, c.buf))
				now := time.Now()
				c.result.AllSent++
				if err != nil {
					c.result.Broken++
					if _ = c.Close(); now.After(c.deadline) || c.connect() != nil {
						return
					}
					continue
				}
				s.count(c, status, since, now)
			}
		})
	}
	all.Wait()
}

func (s *sender) count(c *conn, status int, since, now time.Time) {
	if status != 200 {
		c.result.Refused[status]++
		return
	}
	c.result.AllOK++
	counted := now // without a rate, answers count by when they come
	if s.spec.Rate > 0 {
		counted = since // at a rate, requests count by when they were due, however late the answer
	}
	if counted.After(s.from) && counted.UnixNano() <= s.until.Load() {
		c.result.Answered++
		c.times.add(now.Sub(since))
	}
}

func (s *sender) once() (int, time.Time, bool) {
	i := int(s.next.Add(1)) - 1
	return i, time.Now(), i < s.prepared.n
}

// freely returns the next request for a free connection, until the time is over or the requests run out.
func (s *sender) freely() (int, time.Time, bool) {
	i, now := int(s.next.Add(1))-1, time.Now()
	if until := s.until.Load(); now.UnixNano() > until {
		return 0, now, false
	} else if i >= s.prepared.n && !s.spec.Repeat {
		s.ranOut.Store(true)
		s.until.CompareAndSwap(until, now.UnixNano())
		return 0, now, false
	}
	return i % s.prepared.n, now, true
}

func (s *sender) atRate() (int, time.Time, bool) {
	i, ok := <-s.due
	return i % s.prepared.n, s.dueAt(i), ok
}

// dueAt returns the instant at which the i-th request of a Rate is due.
func (s *sender) dueAt(i int) time.Time {
	return s.began.Add(time.Duration(float64(i) * float64(time.Second) / s.spec.Rate))
}

// pace sends the numbers of the due requests, whether or not a connection is free. It sleeps in the kernel: the
// runtime's timers are up to a millisecond late.
func (s *sender) pace() {
	defer close(s.due)
	for i := 0; ; i++ {
		at := s.dueAt(i)
		if at.UnixNano() > s.until.Load() {
			return
		}
		if i >= s.prepared.n && !s.spec.Repeat {
			break
		}
		for wait := time.Until(at); wait > 0; wait = time.Until(at) {
			pause := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&pause, nil) // an interrupted sleep is continued
		}
		s.due <- i
	}
	s.ranOut.Store(true)
	s.until.Store(time.Now().UnixNano())
}

func (s *sender) sum(conns []*conn, cpu time.Duration) *Result {
	until := time.Unix(0, s.until.Load())
	r := &Result{BodyBytes: s.prepared.bodyBytes, Refused: map[int]int{}, RanOut: s.ranOut.Load(), Elapsed: until.Sub(s.from), CPU: cpu}
	var times latencies
	for _, c := range conns {
		r.Answered += c.result.Answered
		r.AllOK += c.result.AllOK
		r.AllSent += c.result.AllSent
		r.Broken += c.result.Broken
		for status, n := range c.result.Refused {
			r.Refused[status] += n
		}
		times = append(times, c.times...)
	}
	times.into(r)
	return r
}

func (c *conn) connect() (err error) {
	if c.Conn, err = net.Dial("tcp4", c.address); err != nil {
		return fmt.Errorf("connect to the gateway: %w", err)
	}
	return c.SetDeadline(c.deadline)
}

// roundTrip sends a request and reads the status of its answer. It allocates nothing.
func (c *conn) roundTrip(request []byte) (status int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	for n := 0; n < len(c.in); {
		more, err := c.Read(c.in[n:])
		if err != nil {
			return 0, err
		}
		n += more
		if status, whole := readAnswer(c.in[:n]); whole {
			return status, nil
		}
	}
	return 0, fmt.Errorf("read an answer of more than %d bytes", len(c.in))
}

// readAnswer returns the status of an HTTP answer in the bytes read so far, and whether the answer is complete. It
// understands only answers such as the measured servers give.
func readAnswer(b []byte) (status int, whole bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < len("HTTP/1.1 200") {
		return 0, false
	}
	length := 0
	const name = "\r\nContent-Length: "
	if at := bytes.Index(b[:end+2], []byte(name)); at >= 0 {
		length = number(b[at+len(name):])
	}
	return number(b[len("HTTP/1.1 "):]), len(b) >= end+4+length
}

// number reads the digits at the beginning.
func number(b []byte) (n int) {
	for _, digit := range b {
		if digit < '0' || digit > '9' {
			break
		}
		n = n*10 + int(digit-'0')
	}
	return n
}

func checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() {
		return fmt.Errorf("send to %q: only an IPv4 address of this machine's loopback is allowed", address)
	}
	return nil
}

// cpuTime returns the processor time that this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
