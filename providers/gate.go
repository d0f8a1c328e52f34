package providers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
)

// ErrOverloaded says that the Settler's queue is full, or that the gate has no room for a large body.
var ErrOverloaded = errors.New("no room for another request")

// ErrUnconfirmed says that a delivery names an unknown job, or belongs to another job than the URL's, and that a new
// read of the sources and jobs, which could confirm it, failed.
var ErrUnconfirmed = errors.New("sources and jobs could not be read again")

// Settler gives every delivery of a request its ending, durably.
type Settler interface {
	// Settle queues the work and returns at once. It returns ErrOverloaded if it cannot take the work, and then never
	// calls done. Otherwise it calls done exactly once, from another goroutine, with one Ending for each item, in their
	// order, after they are committed.
	Settle(work *Work, done func([]Ending)) error
	// Full reports whether Settle would refuse any work now.
	Full() bool
}

// Work is one request on its way to its endings.
type Work struct {
	Request *Request
	Items   []Item
	// Deadline ends the attempts to settle the work. What is not settled by then has failed.
	Deadline time.Time
	// Rehash computes a delivery's fingerprint by another method; see Gate.Rehash.
	Rehash Rehash

	trouble atomic.Pointer[error]
}

// Troubled records why an attempt to settle the work failed. The request's log line shows the last reason.
func (w *Work) Troubled(err error) { w.trouble.Store(&err) }

// Trouble returns why the last attempt failed; nil if none has.
func (w *Work) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Rehash gives a Settler the fingerprint by which an older key was stored.
type Rehash interface {
	Rehash(ctx context.Context, req *Request, position int, method string) (hash string, known bool)
}

// Item is one resolved delivery of a request: it has a job to be claimed for, or a reason to be dropped.
type Item struct {
	Delivery
	Position     int       // its place in the request
	Job          uuid.UUID // zero if not known
	Organization uuid.UUID // the job's
	Reason       drops.Reason
	Detail       string // explains the reason, for the kept drop
}

// Ending is how a delivery ended: kept, dropped for a reason, or failed.
type Ending = drops.Ending

// Directory holds the known sources and jobs. It is safe for concurrent use.
type Directory interface {
	// Current returns the newest snapshot. It never waits.
	Current() *jobs.Snapshot
	// Refresh returns nil once the current snapshot comes from a read that began after since, or else why there is
	// none.
	Refresh(ctx context.Context, since time.Time) error
}

// Gate takes verified requests to their endings: parse, resolve, settle. It depends only on the Request, so that live
// and redriven requests take one path.
type Gate struct {
	providers   map[string]Provider
	directory   Directory
	settler     Settler
	ledger      *drops.Ledger
	maxInflated int64
	room        *room // for large bodies that are being parsed
}

// NewGate returns a gate for these providers. maxInflated is the largest size in bytes that a compressed body may
// inflate to.
func NewGate(list []Provider, directory Directory, settler Settler, ledger *drops.Ledger, maxInflated int64) *Gate {
	byName := make(map[string]Provider, len(list))
	for _, p := range list {
		byName[p.Name()] = p
	}
	return &Gate{
		providers: byName, directory: directory, settler: settler, ledger: ledger,
		maxInflated: maxInflated, room: newRoom(largeAtOnce(), largeWaiting),
	}
}

// Admission is a request on its way through the gate.
type Admission struct {
	Items []Item // none if the request was turned away before its body was parsed
	// Ended is closed once Endings may be read, one for each item. They are counted before that.
	Ended   chan struct{}
	Endings []Ending
	work    *Work
}

// Trouble returns why the last attempt to settle it failed; nil if none has.
func (a *Admission) Trouble() error {
	if a.work == nil {
		return nil
	}
	return a.work.Trouble()
}

// Admit takes a request that the vendor has just sent to its endings. It returns ErrOverloaded when the settler is
// full, or when a large body found no room before ctx ended, and ErrUnconfirmed when a drop would rest on outdated
// sources and jobs. The deliveries then count as failed; an unparsed body counts as one. It returns ErrNoDelivery,
// and counts nothing, when the vendor only checks the URL. The caller may stop waiting for the endings at any time:
// they are counted when the settler reports them.
func (g *Gate) Admit(ctx context.Context, req *Request, deadline time.Time) (*Admission, error) {
	if g.settler.Full() {
		return g.turnAway(req)
	}
	body, leave, err := g.unpack(ctx, req)
	defer leave() // after the settler has taken the deliveries, whose size it bounds
	if errors.Is(err, ErrOverloaded) {
		return g.turnAway(req)
	}
	items, err := g.split(req, body, err)
	if err != nil {
		return &Admission{}, err
	}
	items, err = g.resolveAll(ctx, req, items)
	g.ledger.Receive(req.Provider, len(items))
	if err != nil {
		g.ledger.Fail(req.Provider, len(items))
		return &Admission{Items: items}, err
	}
	return g.settle(req, items, deadline)
}

// turnAway refuses a request before its body is parsed.
func (g *Gate) turnAway(req *Request) (*Admission, error) {
	g.ledger.Receive(req.Provider, 1)
	g.ledger.Fail(req.Provider, 1)
	return &Admission{}, ErrOverloaded
}

// Recover settles deliveries that were dropped earlier: all or some of the items that Read returns for their request.
// They count as recovered, not as received. Otherwise it is like Admit.
func (g *Gate) Recover(req *Request, items []Item, deadline time.Time) (*Admission, error) {
	g.ledger.Recover(req.Provider, len(items))
	return g.settle(req, items, deadline)
}

// Read returns the deliveries of a request and the jobs that they belong to now, or ErrUnconfirmed. It counts and stores
// nothing.
func (g *Gate) Read(ctx context.Context, req *Request) ([]Item, error) {
	body, leave, err := g.unpack(context.WithoutCancel(ctx), req)
	defer leave()
	items, err := g.split(req, body, err)
	if err != nil {
		return []Item{{Reason: drops.Malformed, Detail: err.Error()}}, nil
	}
	return g.resolveAll(ctx, req, items)
}

// settle hands deliveries to the settler and counts their endings. Their arrival is counted already.
func (g *Gate) settle(req *Request, items []Item, deadline time.Time) (*Admission, error) {
	work := &Work{Request: req, Items: items, Deadline: deadline, Rehash: g}
	a := &Admission{Items: items, Ended: make(chan struct{}), work: work}
	err := g.settler.Settle(work, func(endings []Ending) {
		g.ledger.End(req.Provider, endings...)
		a.Endings = endings
		close(a.Ended)
	})
	if err != nil {
		g.ledger.Fail(req.Provider, len(items))
		return a, err
	}
	return a, nil
}

// resolveAll finds each item's job. The snapshot may be outdated: before an item is dropped for an unknown or
// mismatched job, the directory is read once more, as of the request's arrival.
func (g *Gate) resolveAll(ctx context.Context, req *Request, items []Item) ([]Item, error) {
	if !g.resolveEach(req, items) {
		return items, nil
	}
	if g.directory.Refresh(ctx, req.ReceivedAt) != nil {
		return items, ErrUnconfirmed
	}
	g.resolveEach(req, items)
	return items, nil
}

// resolveEach resolves the items that could be parsed, and reports whether the directory gives a reason to drop any.
func (g *Gate) resolveEach(req *Request, items []Item) (dropped bool) {
	known := g.directory.Current()
	for i := range items {
		if items[i].Reason != drops.Malformed {
			resolve(known, req, &items[i])
			dropped = dropped || items[i].Reason != ""
		}
	}
	return dropped
}
