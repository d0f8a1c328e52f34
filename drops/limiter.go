package drops

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// The bounds on what is kept for one origin in a minute. Without them a vendor that sends only drops, all day, would fill
// the disk; an operator needs a few to see the reason.
const (
	bodiesAMinute = 100  // requests, with their headers and body
	rowsAMinute   = 1000 // rows in all
)

// maxOrigins bounds the limiter's memory: about 1 MB, and 16 bytes for each request that is kept in a minute. Strangers
// cannot add origins: each has a secret.
const maxOrigins = 10_000

// Origin is the unit of the bounds: the source or the job whose secret verified the drops, and the reason.
type Origin struct {
	Verifier uuid.UUID
	Reason   Reason
}

// Keep is what to keep of one drop.
type Keep struct {
	Row  bool // it has its own row
	Body bool // and the row keeps the request
	// Count is how many drops the row stands for: its own, and those before it without a row. 0 without a row.
	Count int
}

// Limiter bounds what this process keeps of drops. For each origin and minute it keeps the first 100 requests, each with
// at least one row, and up to 1,000 rows; other drops are added to the count of the origin's next row. It is safe for
// concurrent use.
type Limiter struct {
	mu     sync.Mutex
	minute map[Origin]*minute
	swept  time.Time
}

type minute struct {
	start    time.Time
	rows     int
	requests []uuid.UUID // that are kept: all rows of one share its body
	owed     int         // drops that no row counts yet
}

// NewLimiter returns a limiter that has seen no drop.
func NewLimiter() *Limiter {
	return &Limiter{minute: make(map[Origin]*minute)}
}

// Admit returns what to keep of one more drop of the request. A time before one that it was given already counts for the
// current minute.
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

// Return undoes an admission whose row could not be written: it frees the places in its minute. The earlier drops that
// the row would have counted are added to the next one.
func (l *Limiter) Return(origin Origin, request uuid.UUID, keep Keep, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.of(origin, now)
	m.owed += max(0, keep.Count-1)
	if now.Before(m.start) {
		return // it was admitted in an earlier minute
	}
	if keep.Row && m.rows > 0 {
		m.rows--
	}
	if i := slices.Index(m.requests, request); i >= 0 && keep.Body {
		m.requests = slices.Delete(m.requests, i, i+1)
	}
}

// of returns the origin's minute, and makes room for a new one.
func (l *Limiter) of(origin Origin, now time.Time) *minute {
	if m, ok := l.minute[origin]; ok {
		return m
	}
	l.forget(now)
	m := &minute{start: now}
	l.minute[origin] = m
	return m
}

// forget removes, at most once a minute, the origins whose minute has passed and that owe nothing. If that makes no room,
// it removes any one: with so many origins at once, the bound of one does not protect the disk.
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
