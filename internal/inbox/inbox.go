// Package inbox keeps deliveries. Whatever arrived while the last transaction ran forms the next one: the
// keys are claimed and completed, the inbox rows of the claims won are inserted with them, and then the kept
// drops, in one round trip that ends with COMMIT. Nobody is told of an ending before that.
package inbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// Lease is how long a delivery's claim is its worker's own. The claim is completed in the transaction
// that makes it, so the lease is only ever seen where another writer claims webhook keys on its own.
const Lease = 30 * time.Second

// Options bound the inbox. Every field must be positive.
type Options struct {
	QueueDeliveries int   // deliveries that may wait or be under way
	QueueBytes      int64 // and their bytes
	BatchDeliveries int   // deliveries in one transaction
	BatchBytes      int64
	Committers      int // transactions at once
}

// SpareConnections is how many deliveries are settled one by one at once, beside the committers' batches.
const SpareConnections = 8

// The time-outs of a transaction. A wait for a lock is a wait for another writer of the same key.
const (
	lockTimeout      = 200 * time.Millisecond
	statementTimeout = 5 * time.Second
	idleTimeout      = 5 * time.Second
	roundTrip        = 8 * time.Second // the whole of it, on this side
	reconnectEvery   = time.Second
)

// Inbox is the Settler of the gate. It is safe for concurrent use.
type Inbox struct {
	pool       *pgxpool.Pool
	keys       *idempotency.Service
	scopes     map[string]idempotency.Scope // by provider
	limiter    *drops.Limiter
	partitions *Partitions
	options    Options
	queue      *queue
	metrics    *metrics
	log        *slog.Logger

	alone      chan struct{}
	working    sync.WaitGroup // committers
	straggling sync.WaitGroup // deliveries that are settled alone

	connections sync.Mutex
	reconnected time.Time // when all connections were given up last

	running context.Context // of every transaction; it ends when a stop has run out of time
	cut     context.CancelFunc
}

var _ providers.Settler = (*Inbox)(nil)

// Deps are what an inbox works with.
type Deps struct {
	Pool       *pgxpool.Pool // at least Committers + SpareConnections connections
	Keys       *idempotency.Service
	Partitions *Partitions
	Registerer prometheus.Registerer
	Providers  []string // for metrics
	Log        *slog.Logger
}

// New starts an inbox. Stop ends it. A provider whose webhook scope has no retention is an error.
func New(deps Deps, options Options) (*Inbox, error) {
	scopes := make(map[string]idempotency.Scope, len(deps.Providers))
	for _, provider := range deps.Providers {
		scope, err := idempotency.NewScope("webhook." + provider)
		if err != nil {
			return nil, err
		}
		scopes[provider] = scope
	}
	b := &Inbox{
		pool:       deps.Pool,
		keys:       deps.Keys,
		scopes:     scopes,
		limiter:    drops.NewLimiter(),
		partitions: deps.Partitions,
		options:    options,
		queue:      newQueue(options.QueueDeliveries, options.QueueBytes),
		metrics:    newMetrics(deps.Registerer, deps.Providers),
		log:        deps.Log,
		alone:      make(chan struct{}, SpareConnections),
	}
	b.running, b.cut = context.WithCancel(context.Background())
	for range options.Committers {
		b.working.Go(b.commit)
	}
	return b, nil
}

// Settle implements providers.Settler.
func (b *Inbox) Settle(work *providers.Work, done func([]providers.Ending)) error {
	e := &entry{
		work:    work,
		done:    done,
		bytes:   sizeOf(work),
		queue:   b.queue,
		endings: make([]providers.Ending, len(work.Items)),
		open:    len(work.Items),
	}
	if !b.queue.put(e) {
		return providers.ErrOverloaded
	}
	return nil
}

// Full implements providers.Settler.
func (b *Inbox) Full() bool { return b.queue.full() }

// Stop refuses new work, settles what it has, and returns when all of it has ended. When ctx ends, the transactions
// under way are given up: a server that stands still would hold each for seconds. Their deliveries have failed, and
// the vendor's repeat finds what was committed all the same.
func (b *Inbox) Stop(ctx context.Context) {
	defer context.AfterFunc(ctx, b.cut)()
	b.queue.close()
	b.working.Wait()
	b.straggling.Wait()
	b.cut()
}

func (b *Inbox) commit() {
	for {
		entries := b.queue.take(b.options.BatchDeliveries, b.options.BatchBytes)
		if entries == nil {
			return
		}
		b.settle(b.rowsOf(entries))
		b.queue.finished()
	}
}

// rowsOf lists the deliveries of the entries. One that comes too late, or that is dropped without a row,
// ends here.
func (b *Inbox) rowsOf(entries []*entry) []*row {
	n := 0
	for _, e := range entries {
		n += len(e.work.Items)
	}
	rows := make([]*row, 0, n)
	for _, e := range entries {
		late := passed(e.work.Deadline)
		for i := range e.work.Items {
			r := newRow(e, i)
			switch {
			case late:
				b.fail(r)
			case r.item.Reason == "":
				if b.hashed(r) {
					rows = append(rows, r)
				}
			case b.keep(r, r.item.Reason, r.item.Detail):
				rows = append(rows, r)
			}
		}
	}
	return rows
}
