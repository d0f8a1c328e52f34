package inbox

import (
	"slices"
	"sync"
	"time"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// entry is one request on its way to its endings.
type entry struct {
	work  *providers.Work
	done  func([]providers.Ending)
	bytes int64
	queue *queue

	mu      sync.Mutex
	endings []providers.Ending
	open    int
}

// sizeOf estimates how many bytes a request and its deliveries hold. Inflated bytes are not part of the request's body,
// and a delivery's texts may be as long as a body.
func sizeOf(work *providers.Work) int64 {
	n := len(work.Request.Body)
	for i := range work.Items {
		item := &work.Items[i]
		n += len(item.VendorID) + len(item.Type) + len(item.OrderingKey)
		if work.Request.ContentEncoding != "" {
			n += len(item.Body)
		}
		for _, named := range item.Named {
			n += 2*16 + len(named.Value) // its two strings; its name is one of few
		}
	}
	return int64(n)
}

// end gives one delivery its ending. The last one frees the request's place in the queue and reports to the gate.
func (e *entry) end(i int, ending providers.Ending) {
	e.mu.Lock()
	e.endings[i] = ending
	e.open--
	last := e.open == 0
	e.mu.Unlock()
	if last {
		e.queue.release(e)
		e.done(e.endings)
	}
}

// queue holds the requests that wait for the next transaction, in two lanes, each in the order of arrival: small ones
// do not wait behind megabytes of large ones. What was taken but has not ended yet counts towards the bounds too, so
// that a slow database does not make memory grow.
type queue struct {
	maxItems int
	maxBytes int64

	mu            sync.Mutex
	filled        sync.Cond
	lanes         [2][]*entry             // small, large
	turn          int                     // the lane that the next transaction takes from, if there is something in it
	large         int64                   // bytes of the large ones
	signed        map[jobs.Verifier]int64 // the same by who signed them
	gathered      int                     // deliveries of both lanes
	gatheredBytes int64
	running       int       // transactions under way
	begun         time.Time // when the last of them began
	alarm         *time.Timer
	alarmed       bool
	items         int
	bytes         int64
	closed        bool
}

// A transaction costs the database as much as a dozen deliveries, whatever it holds. So while one runs, a second one
// begins only for this many deliveries or bytes: a smaller batch waits for the running one to end, but only until that
// has run for maxBatchWait. 64 and 20 ms are guesses that measured well.
const (
	minConcurrentBatch = 64
	minConcurrentBytes = 1 << 20
	maxBatchWait       = 20 * time.Millisecond
)

// Requests of largeWork bytes and more wait in the lane of the large ones. Together they take at most three quarters of
// the queue's bytes, and those of one signer at most half.
const largeWork = 256 << 10

func newQueue(maxItems int, maxBytes int64) *queue {
	q := &queue{maxItems: maxItems, maxBytes: maxBytes, signed: make(map[jobs.Verifier]int64)}
	q.filled.L = &q.mu
	q.alarm = time.AfterFunc(time.Hour, q.onAlarm)
	q.alarm.Stop()
	return q
}

// ready reports whether a committer should take what waits: at once when none is at work.
func (q *queue) ready() bool {
	return q.gathered > 0 && (q.running == 0 || q.closed ||
		q.gathered >= minConcurrentBatch || q.gatheredBytes >= minConcurrentBytes || time.Since(q.begun) >= maxBatchWait)
}

// wake wakes a committer when there is work for one, or sets the alarm that will.
func (q *queue) wake() {
	switch {
	case q.ready():
		q.filled.Signal()
	case q.gathered > 0 && !q.alarmed:
		q.alarmed = true
		q.alarm.Reset(maxBatchWait - time.Since(q.begun))
	}
}

func (q *queue) onAlarm() {
	q.mu.Lock()
	q.alarmed = false
	q.wake()
	q.mu.Unlock()
}

// put adds an entry and reports whether it did. It refuses one that would pass a bound, unless the queue is empty: a
// request that is larger than the bounds must be settled too.
func (q *queue) put(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(e.work.Items)
	if q.closed || q.items > 0 && (q.items+n > q.maxItems || q.bytes+e.bytes > q.maxBytes) {
		return false
	}
	lane := 0
	if e.bytes >= largeWork {
		if !q.putLarge(e) {
			return false
		}
		lane = 1
	}
	q.items += n
	q.bytes += e.bytes
	q.lanes[lane] = append(q.lanes[lane], e)
	q.gathered += n
	q.gatheredBytes += e.bytes
	q.wake()
	return true
}

// putLarge counts a large request for its signer. It reports false when the signer, or all signers together, have their
// share in the queue. The first request is always taken.
func (q *queue) putLarge(e *entry) bool {
	signer := e.work.Request.VerifiedBy
	own := q.signed[signer]
	if own > 0 && own+e.bytes > q.maxBytes/2 || q.large > 0 && q.large+e.bytes > q.maxBytes/4*3 {
		return false
	}
	q.large += e.bytes
	q.signed[signer] += e.bytes
	return true
}

// full reports whether put would refuse any entry.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed || q.items >= q.maxItems || q.bytes >= q.maxBytes
}

// take waits for work, then takes what has gathered, up to the bounds of one transaction. It returns nil once the queue
// is closed and empty. The caller calls finished after the transaction.
func (q *queue) take(maxItems int, maxBytes int64) []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ready() {
		if q.closed {
			return nil
		}
		q.filled.Wait()
	}
	if len(q.lanes[q.turn]) == 0 {
		q.turn = 1 - q.turn
	}
	lane := q.lanes[q.turn]
	n, items, bytes := 0, 0, int64(0)
	for n < len(lane) {
		e := lane[n]
		items += len(e.work.Items)
		bytes += e.bytes
		if n > 0 && (items > maxItems || bytes > maxBytes) {
			break
		}
		n++
	}
	taken := slices.Clone(lane[:n])
	q.lanes[q.turn] = slices.Delete(lane, 0, n)
	q.turn = 1 - q.turn
	for _, e := range taken {
		q.gathered -= len(e.work.Items)
		q.gatheredBytes -= e.bytes
	}
	q.running++
	q.begun = time.Now()
	q.wake()
	return taken
}

// finished ends a transaction, so that the next one may begin.
func (q *queue) finished() {
	q.mu.Lock()
	q.running--
	q.wake()
	q.mu.Unlock()
}

func (q *queue) release(e *entry) {
	q.mu.Lock()
	q.items -= len(e.work.Items)
	q.bytes -= e.bytes
	if e.bytes >= largeWork {
		signer := e.work.Request.VerifiedBy
		q.large -= e.bytes
		if q.signed[signer] -= e.bytes; q.signed[signer] == 0 {
			delete(q.signed, signer)
		}
	}
	q.mu.Unlock()
}

// close makes put refuse everything. What waits is still taken.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.filled.Broadcast()
	q.mu.Unlock()
}
