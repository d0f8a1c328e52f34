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

// ErrOverloaded is a Settler's answer when its queue is full, and the gate's when it has no room either.
var ErrOverloaded = errors.New("no room for another request")

// ErrUnconfirmed is the gate's answer when a delivery belongs to no job that is known, or to another one, and it
// could not be asked whether that has changed.
var ErrUnconfirmed = errors.New("sources and jobs could not be read anew")

// Settler gives every delivery of a request its ending, durably.
type Settler interface {
	// Settle queues the work and returns at once. It answers ErrOverloaded when it cannot take the work,
	// and then never calls done. Otherwise it calls done exactly once, from a goroutine of its own, with
	// one Ending an item, in their order, and only after what they say is committed.
	Settle(work *Work, done func([]Ending)) error
	// Full reports whether Settle would refuse any work now.
	Full() bool
}

// Work is one request on its way to its endings.
type Work struct {
	Request *Request
	Items   []Item
	// Deadline ends the attempts to settle it. What is not settled by then has failed.
	Deadline time.Time
	// Rehash tells a delivery's fingerprint by another method than its Hash is of; see Gate.Rehash.
	Rehash Rehash

	trouble atomic.Pointer[error]
}

// Troubled notes why an attempt to settle the work failed. The request's one log line tells the last reason.
func (w *Work) Troubled(err error) { w.trouble.Store(&err) }

// Trouble is why the last attempt failed; nil when none has.
func (w *Work) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Rehash is what a Settler asks for a fingerprint that an older key may have.
type Rehash interface {
	Rehash(ctx context.Context, req *Request, position int, method string) (hash string, known bool)
}

// Item is one delivery of a request, resolved: it has a job to be claimed for, or a reason to be dropped.
type Item struct {
	Delivery
	Position     int       // its place in the request
	Job          uuid.UUID // zero where none is known
	Organization uuid.UUID // the job's
	Reason       drops.Reason
	Detail       string // our own words on the reason, for the kept drop
}

// Ending is how a delivery ended: kept, dropped for a reason, or failed.
type Ending = drops.Ending

// Directory holds the sources and jobs that are known. It is safe for concurrent use.
type Directory interface {
	// Current returns the newest snapshot. It never waits.
	Current() *jobs.Snapshot
	// Refresh returns nil once the current snapshot comes from a read that began after since, or the reason why there
	// is none.
	Refresh(ctx context.Context, since time.Time) error
}

// Gate takes verified requests to their endings: parse, resolve, settle. It depends on the Request
// alone, so that live, repeated and re-driven requests go one way.
type Gate struct {
	providers   map[string]Provider
	directory   Directory
	settler     Settler
	ledger      *drops.Ledger
	maxInflated int64
	room        *room // for large bodies that are being taken apart
}

// NewGate returns a gate for the providers given. maxInflated bounds, in bytes, what a compressed body may
// become.
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
	Items []Item // none of a request that was turned away before its body was read
	// Ended is closed once Endings may be read: one an item. They are counted before that.
	Ended   chan struct{}
	Endings []Ending
	work    *Work
}

// Trouble is why the last attempt to settle it failed; nil when none has.
func (a *Admission) Trouble() error {
	if a.work == nil {
		return nil
	}
	return a.work.Trouble()
}

// Admit takes a request that the vendor has just sent to its endings. It answers ErrOverloaded when the
// settler has no room, or when there was none to take a large body apart until ctx ended, and ErrUnconfirmed
// when a drop would rest on what may have changed; the deliveries are then counted as failed, a body that was not
// read for it as one. It answers ErrNoDelivery, and counts nothing, when the vendor only checks the URL. The caller
// may stop waiting for the endings at any time: they are counted when the settler knows them.
func (g *Gate) Admit(ctx context.Context, req *Request, deadline time.Time) (*Admission, error) {
	if g.settler.Full() {
		return g.turnAway(req)
	}
	body, leave, err := g.unpack(ctx, req)
	defer leave() // once the settler bounds what was made of the body
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

// turnAway refuses a request before its body is read.
func (g *Gate) turnAway(req *Request) (*Admission, error) {
	g.ledger.Receive(req.Provider, 1)
	g.ledger.Fail(req.Provider, 1)
	return &Admission{}, ErrOverloaded
}

// Recover takes up again deliveries whose vendor has its answer since long: all of what Read says of their
// request now, or some of it. They are counted as recovered and not as received; the rest is as of Admit.
func (g *Gate) Recover(req *Request, items []Item, deadline time.Time) (*Admission, error) {
	g.ledger.Recover(req.Provider, len(items))
	return g.settle(req, items, deadline)
}

// Read says where each delivery of a request belongs as things stand now, or answers ErrUnconfirmed. It counts and
// stores nothing.
func (g *Gate) Read(ctx context.Context, req *Request) ([]Item, error) {
	body, leave, err := g.unpack(context.WithoutCancel(ctx), req)
	defer leave()
	items, err := g.split(req, body, err)
	if err != nil {
		return []Item{{Reason: drops.Malformed, Detail: err.Error()}}, nil
	}
	return g.resolveAll(ctx, req, items)
}

// settle hands deliveries that were counted on their way to the settler, and counts their endings.
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

// resolveAll finds each item's job. That an item belongs to no job, or to another one, may only be old news: the
// directory is asked once whether it has changed since the request came, before anything is dropped for it.
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

// resolveEach resolves the items that were read, and reports whether any is to be dropped for what the directory
// knows.
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
