package drops

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// What is kept of one origin's drops in a minute. A vendor that sends nothing but drops, all day, fills no
// disk; and an operator needs a few to see why.
const (
	bodiesAMinute = 100  // requests, with their headers and body
	rowsAMinute   = 1000 // rows in all
)

// maxOrigins bounds the limiter's memory: about 1 MB, and 16 bytes for each request that is kept in a minute.
// Origins are real: whoever is one holds a secret.
const maxOrigins = 10_000

// Origin is what drops are bounded by: the source or the job whose secret verified them, and the reason.
type Origin struct {
	Verifier uuid.UUID
	Reason   Reason
}

// Keep says what to keep of one drop.
type Keep struct {
	Row  bool // it has a row of its own
	Body bool // and the row keeps the request
	// Count is how many drops the row stands for: itself, and those before it that had none. 0 without a row.
	Count int
}

// Limiter bounds what is kept of drops, in this process. Each minute the first 100 requests of an origin
// are kept, each with one row at least; drops up to 1,000 have a row of their own, and the others are added to
// the count of the origin's next row. It is safe for concurrent use.
type Limiter struct {
	mu     sync.Mutex
	minute map[Origin]*minute
	swept  time.Time
}

type minute struct {
	start    time.Time
	rows     int
	requests []uuid.UUID // those kept: all rows of one share its body
	owed     int         // drops that no row stands for yet
}

// NewLimiter returns a limiter that has seen no drop.
func NewLimiter() *Limiter {
	return &Limiter{minute: make(map[Origin]*minute)}
}

// Admit says what to keep of one more drop of the request. An instant before one that it was given already
// belongs to the minute that runs.
func (l *Limiter) Admit(origin Origin, request uuid.UUID, now time.Time) Keep {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.of(origin, now)
	if now.Sub(m.start) >= time.Minute {
		*m = minute{start: now, owed: m.owed}
	}
	known := slices.Contains(m.requests, request)
	news := !known && len(m.requests) < bodiesAMinute
	if m.rows >= rowsAMinute && !news {
		m.owed++
		return Keep{}
	}
	if news {
		m.requests = append(m.requests, request)
	}
	keep := Keep{Row: true, Body: known || news, Count: 1 + m.owed}
	m.rows++
	m.owed = 0
	return keep
}

// Return takes back an admission whose row could not be written and whose drop has failed: it takes nothing
// of its minute's bounds. The drops that the row would have stood for besides are added to the next one.
func (l *Limiter) Return(origin Origin, request uuid.UUID, keep Keep, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.of(origin, now)
	m.owed += max(0, keep.Count-1)
	if now.Before(m.start) {
		return // of an earlier minute
	}
	if keep.Row && m.rows > 0 {
		m.rows--
	}
	if i := slices.Index(m.requests, request); i >= 0 && keep.Body {
		m.requests = slices.Delete(m.requests, i, i+1)
	}
}

// of returns the origin's minute, which it makes room for.
func (l *Limiter) of(origin Origin, now time.Time) *minute {
	if m, ok := l.minute[origin]; ok {
		return m
	}
	l.forget(now)
	m := &minute{start: now}
	l.minute[origin] = m
	return m
}

// forget drops the origins whose minute has passed and that owe nothing, at most once a minute. When that
// makes no room, any one goes: with so many origins at once, its bound is not what protects the disk.
func (l *Limiter) forget(now time.Time) {
	if now.Sub(l.swept) >= time.Minute {
		l.swept = now
		for origin, m := range l.minute {
			if m.owed == 0 && now.Sub(m.start) >= time.Minute {
				delete(l.minute, origin)
			}
		}
	}
	for origin := range l.minute {
		if len(l.minute) < maxOrigins {
			return
		}
		delete(l.minute, origin)
	}
}
