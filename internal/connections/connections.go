// Package connections bounds how many connections a listener holds at once, and exports the metrics of the pool of
// connections to PostgreSQL.
package connections

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

// Limit bounds how many connections are open at once. When a new one would exceed the limit, the connection whose
// request has been incomplete for longest is closed: it has sent nothing, part of a head, or part of a body. An
// honest client sends its request at once, so stalled connections are older than all honest ones. It is safe for
// concurrent use.
type Limit struct {
	limit int
	shed  func(before time.Time) bool

	mu      sync.Mutex
	open    int
	waiting list.List // of waiting, the oldest first
	place   map[net.Conn]*list.Element

	closed *prometheus.CounterVec
}

// waiting is a connection that has not sent a whole head yet.
type waiting struct {
	conn  net.Conn
	since time.Time
}

// Why a connection was closed, as a label.
const (
	closedIdle    = "idle"    // its head had not arrived whole
	closedSlow    = "slow"    // its body was still arriving
	closedRefused = "refused" // it was new, and all others had sent their requests
)

// New returns a Limit of limit connections and registers its metrics. shed ends the oldest request whose body is
// still arriving, with its connection, if it began before the given time; it reports whether there was one.
func New(limit int, shed func(before time.Time) bool, reg prometheus.Registerer) *Limit {
	l := &Limit{limit: limit, shed: shed, place: make(map[net.Conn]*list.Element)}
	f := promauto.With(reg)
	for state, count := range map[string]func() int{
		"waiting": func() int { return l.waiting.Len() },
		"busy":    func() int { return l.open - l.waiting.Len() },
	} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gateway_connections", ConstLabels: prometheus.Labels{"state": state},
			Help: "Connections of vendors and others to the public listener: waiting for a request, or busy with one.",
		}, func() float64 {
			l.mu.Lock()
			defer l.mu.Unlock()
			return float64(count())
		})
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gateway_connections_limit", Help: "How many connections the public listener holds at most.",
	}, func() float64 { return float64(limit) })
	l.closed = f.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_connections_closed_total",
		Help: "Connections that were closed for new ones because there were too many: idle, slow to send a body, or new themselves (refused).",
	}, []string{"reason"})
	for _, reason := range []string{closedIdle, closedSlow, closedRefused} {
		l.closed.WithLabelValues(reason)
	}
	return l
}

// Listener returns a listener that accepts within the limit. Its server must call Follow.
func (l *Limit) Listener(inner net.Listener) net.Listener { return limited{inner, l} }

type limited struct {
	net.Listener
	limit *Limit
}

func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.limit.admit() {
			return conn, err
		}
		_ = conn.Close() // nothing was read from it
	}
}

// admit counts a new connection and makes room for it. It returns false when there is no room.
func (l *Limit) admit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open < l.limit {
		l.open++
		return true
	}
	oldest, since := l.waiting.Front(), time.Now()
	if oldest != nil {
		since = oldest.Value.(waiting).since
	}
	reason := closedRefused
	switch {
	case l.shed(since):
		reason = closedSlow
	case oldest != nil:
		conn := oldest.Value.(waiting).conn
		l.forget(conn)
		_ = conn.Close() // the server notices, and calls Follow
		reason = closedIdle
	}
	l.closed.WithLabelValues(reason).Inc()
	if reason == closedRefused {
		return false
	}
	l.open++ // the other one ends in a moment
	return true
}

// Follow is the server's ConnState.
func (l *Limit) Follow(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		l.place[conn] = l.waiting.PushBack(waiting{conn, time.Now()})
	case http.StateActive:
		l.forget(conn)
	case http.StateClosed, http.StateHijacked:
		l.forget(conn)
		l.open--
	}
}

func (l *Limit) forget(conn net.Conn) {
	if e := l.place[conn]; e != nil {
		l.waiting.Remove(e)
		delete(l.place, conn)
	}
}

// FitFiles lowers a limit on connections to what the process may open beside its other files, and logs a warning if
// it does.
func FitFiles(limit int, log *slog.Logger) int {
	const others = 256 // the database, the admin listener, files
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil || uint64(limit)+others <= files.Cur {
		return limit
	}
	fit := max(int(files.Cur)-others, 64)
	log.Warn("fewer connections than GATEWAY_MAX_CONNECTIONS: the process may not open as many files", "connections", fit, "files", files.Cur)
	return fit
}
