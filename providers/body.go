package providers

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

var (
	errTooLarge   = errors.New("body over the limit")
	errSlow       = errors.New("body did not arrive whole in time")
	errBroken     = errors.New("body broke off, or its chunks cannot be read")
	errOverBudget = errors.New("bodies of all requests are over the budget")
)

// smallBody is the size in bytes up to which a body may use the share that is kept for small ones.
const smallBody = 64 << 10

// budget bounds the memory of all request bodies at once. A quarter of it is kept for small bodies. When the rest is
// used up, the body that has been arriving for longest is evicted: an honest body arrives within milliseconds, so a
// stalled one is older than all honest ones.
type budget struct {
	mu          sync.Mutex
	left        int64
	reserve     int64   // for small bodies
	first, last *intake // the bodies that are still arriving, the oldest first
}

func newBudget(bytes int64) *budget { return &budget{left: bytes, reserve: bytes / 4} }

// intake is the body of one request: what it is charged, and its place among those that are still arriving.
type intake struct {
	budget   *budget
	w        http.ResponseWriter
	since    time.Time
	held     int64
	arriving bool
	evicted  bool
	cut      bool // its connection is closed as well
	partial  bool // part of the body may not have been read yet

	before, after *intake
}

func (b *budget) link(in *intake) {
	in.arriving, in.before = true, b.last
	if b.last == nil {
		b.first = in
	} else {
		b.last.after = in
	}
	b.last = in
}

func (b *budget) unlink(in *intake) {
	if !in.arriving {
		return
	}
	if in.before == nil {
		b.first = in.after
	} else {
		in.before.after = in.after
	}
	if in.after == nil {
		b.last = in.before
	} else {
		in.after.before = in.before
	}
	in.arriving, in.before, in.after = false, nil, nil
}

// grow charges further bytes to a body that is arriving. It returns false when there are none, or when the body was
// evicted.
func (in *intake) grow(n int64) bool {
	b := in.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if in.evicted {
		return false
	}
	var floor int64
	if in.held+n > smallBody {
		floor = b.reserve
	}
	for b.left-n < floor {
		if b.first == nil || b.first == in {
			return false
		}
		b.evict(b.first)
	}
	b.left -= n
	in.held += n
	if !in.arriving {
		b.link(in)
	}
	return true
}

// evict frees what a body holds, and ends its reading.
func (b *budget) evict(in *intake) {
	b.unlink(in)
	in.evicted = true
	b.left += in.held
	in.held = 0
	setReadDeadline(in.w, time.Unix(1, 0))
}

// cutOldest evicts the body that has been arriving for longest and closes its connection, if it came before a time.
// It reports whether it did.
func (b *budget) cutOldest(before time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil || !b.first.since.Before(before) {
		return false
	}
	b.first.cut = true
	b.evict(b.first)
	return true
}

// whole records that the body has arrived, and keeps its charge until release. It returns false when the body was
// evicted.
func (in *intake) whole() bool {
	in.budget.mu.Lock()
	defer in.budget.mu.Unlock()
	in.budget.unlink(in)
	return !in.evicted
}

// release gives back what the body was charged.
func (in *intake) release() {
	in.budget.mu.Lock()
	defer in.budget.mu.Unlock()
	in.budget.unlink(in)
	in.budget.left += in.held
	in.held = 0
}

// setReadDeadline sets when the rest of a request must have arrived; zero removes the deadline. It is set before
// anything is refused and removed only once the body is whole: before it answers, the server reads the rest of an
// unwanted body, and would wait for ever for a client that sends no more.
func setReadDeadline(w http.ResponseWriter, until time.Time) {
	// A writer that cannot set a deadline is a test's recorder: its body is in memory already.
	_ = http.NewResponseController(w).SetReadDeadline(until)
}

// read reads a body of at most limit bytes. Memory is charged as it is needed, so that a request that promises much
// and sends little uses little. The caller calls release, also after an error. The connection's read deadline bounds
// the time; see setReadDeadline.
func (in *intake) read(req *http.Request, limit int64) ([]byte, error) {
	if req.ContentLength > limit {
		return nil, errTooLarge
	}
	most := limit
	if req.ContentLength >= 0 {
		most = req.ContentLength
	}
	const first = 16 << 10
	var body []byte
	size := min(most, first) + 1 // one byte more, to see the end
	for {
		if len(body) == cap(body) {
			if !in.grow(size - int64(cap(body))) {
				return body, errOverBudget
			}
			grown := make([]byte, len(body), size)
			copy(grown, body)
			body, size = grown, min(4*size, most+1)
		}
		n, err := req.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, errTooLarge
		case err == nil:
		case errors.Is(err, io.EOF):
			if !in.whole() {
				return body, errOverBudget
			}
			in.partial = false
			setReadDeadline(in.w, time.Time{})
			return body, nil
		default:
			return body, in.broken(err)
		}
	}
}

// broken returns why a body did not arrive whole.
func (in *intake) broken(err error) error {
	switch {
	case !in.whole():
		return errOverBudget
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlow
	default:
		return errBroken
	}
}
