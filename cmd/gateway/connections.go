package main

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// connections bounds how many connections are open at once. When a new one would be too many, the one gives way whose
// request has been outstanding for longest: it has sent nothing, a part of a head, or a part of a body. An honest
// client sends its request at once, so those that stall are older than all honest ones.
type connections struct {
	limit int
	shed  func(before time.Time) bool // ends the request whose body has been arriving for longest, and its connection

	mu      sync.Mutex
	open    int
	waiting list.List // of waiting, the one that has been waiting for longest first
	place   map[net.Conn]*list.Element

	closed *prometheus.CounterVec
}

// waiting is a connection from which no whole head has come yet.
type waiting struct {
	conn  net.Conn
	since time.Time
}

// What a connection was closed for, as a label.
const (
	closedIdle    = "idle"    // no whole head had come
	closedSlow    = "slow"    // its body was still arriving
	closedRefused = "refused" // it was new, and the requests of all others are there
)

func newConnections(limit int, shed func(time.Time) bool, reg prometheus.Registerer) *connections {
	c := &connections{limit: limit, shed: shed, place: make(map[net.Conn]*list.Element)}
	f := promauto.With(reg)
	for state, count := range map[string]func() int{
		"waiting": func() int { return c.waiting.Len() },
		"busy":    func() int { return c.open - c.waiting.Len() },
	} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_connections", ConstLabels: prometheus.Labels{"state": state},
			Help: "Connections of vendors and others to the public listener: waiting for a request, or busy with one.",
		}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(count())
		})
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gateway_connections_limit", Help: "How many connections the public listener holds at most.",
	}, func() float64 { return float64(limit) })
	c.closed = f.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_connections_closed_total",
		Help: "Connections that were closed for new ones because there were too many: idle, slow to send a body, or new themselves (refused).",
	}, []string{"reason"})
	for _, reason := range []string{closedIdle, closedSlow, closedRefused} {
		c.closed.WithLabelValues(reason)
	}
	return c
}

// limited is a listener whose connections are bounded.
type limited struct {
	net.Listener
	connections *connections
}

func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.connections.admit() {
			return conn, err
		}
		_ = conn.Close() // it has got nothing yet
	}
}

// admit counts a new connection and makes room for it; false when there is none.
func (c *connections) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open < c.limit {
		c.open++
		return true
	}
	oldest, since := c.waiting.Front(), time.Now()
	if oldest != nil {
		since = oldest.Value.(waiting).since
	}
	reason := closedRefused
	switch {
	case c.shed(since):
		reason = closedSlow
	case oldest != nil:
		conn := oldest.Value.(waiting).conn
		c.forget(conn)
		_ = conn.Close() // the server sees it, and follow is told
		reason = closedIdle
	}
	c.closed.WithLabelValues(reason).Inc()
	if reason == closedRefused {
		return false
	}
	c.open++ // the other one ends in a moment
	return true
}

// follow is a server's ConnState.
func (c *connections) follow(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		c.place[conn] = c.waiting.PushBack(waiting{conn, time.Now()})
	case http.StateActive:
		c.forget(conn)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
		c.open--
	}
}

func (c *connections) forget(conn net.Conn) {
	if e := c.place[conn]; e != nil {
		c.waiting.Remove(e)
		delete(c.place, conn)
	}
}

// fitFiles lowers a limit on connections to what the process may open beside its other files.
func fitFiles(limit int, log *slog.Logger) int {
	const others = 256 // the database, the admin listener, files
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil || uint64(limit)+others <= files.Cur {
		return limit
	}
	fit := max(int(files.Cur)-others, 64)
	log.Warn("fewer connections than GATEWAY_MAX_CONNECTIONS: the process may not open as many files", "connections", fit, "files", files.Cur)
	return fit
}
