package providers

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

var (
	errTooLarge   = errors.New("body over the limit")
	errSlow       = errors.New("body did not arrive whole in time")
	errOverBudget = errors.New("bodies of all requests are over the budget")
)

// budget bounds the bytes of all request bodies that are in memory at once.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := &budget{}
	b.left.Store(bytes)
	return b
}

func (b *budget) take(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *budget) give(n int64) { b.left.Add(n) }

// giveTime sets until when the rest of a request may arrive; zero: there is no rest. It is set before
// anything is refused and lifted only once the body is whole: the server reads what is left of a body that
// is not wanted before it answers, and would wait for ever for a client that sends no more.
func giveTime(w http.ResponseWriter, until time.Time) {
	// A writer that cannot set a deadline is a test's recorder: its body is in memory already.
	_ = http.NewResponseController(w).SetReadDeadline(until)
}

// read reads a body of at most limit bytes. The budget is charged as the bytes arrive, so that a request
// that promises much and sends little takes little. The caller gives the length of what is returned back
// to the budget, also with an error. The connection's read deadline bounds the time; see giveTime.
func (b *budget) read(w http.ResponseWriter, req *http.Request, limit int64) ([]byte, error) {
	if req.ContentLength > limit {
		return nil, errTooLarge
	}
	const first = 16 << 10
	size := req.ContentLength
	if size < 0 || size > first {
		size = first
	}
	body := make([]byte, 0, size+1)
	for {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(2*int64(cap(body)), limit+1))
			copy(grown, body)
			body = grown
		}
		n, err := req.Body.Read(body[len(body):cap(body)])
		if n > 0 && !b.take(int64(n)) {
			return body, errOverBudget
		}
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, errTooLarge
		case errors.Is(err, io.EOF):
			giveTime(w, time.Time{})
			return body, nil
		case err != nil:
			return body, errSlow
		}
	}
}
