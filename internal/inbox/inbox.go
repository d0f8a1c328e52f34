// Package inbox stores deliveries. Everything that arrives while a transaction runs is stored by the next one. It
// claims and completes the keys, inserts the inbox rows of the claims won and then the kept drops, in one round trip
// that ends with COMMIT. Only then are endings reported.
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

// Lease is how long a delivery's claim belongs to its worker. The transaction that makes the claim also completes it, so
// a lease is only seen where another writer claims webhook keys.
const Lease = 30 * time.Second

// Options bound the inbox. Every field must be positive.
type Options struct {
	QueueDeliveries int   // deliveries that may wait or be in progress
	QueueBytes      int64 // and their bytes
	BatchDeliveries int   // deliveries in one transaction
	BatchBytes      int64
	Committers      int // transactions at once
}

// SpareConnections is how many deliveries are settled one by one at once, beside the committers' batches.
const SpareConnections = 8

// The timeouts of a transaction. A wait for a lock is a wait for another writer of the same key.
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

	alone      chan struct{}  // one token for each transaction beside the batches
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
	Scopes     map[string]idempotency.Scope // by provider: see Scopes
	Log        *slog.Logger
}

// New starts an inbox. Stop ends it.
func New(deps Deps, options Options) (*Inbox, error) {
	b := &Inbox{
		pool:       deps.Pool,
		keys:       deps.Keys,
		scopes:     deps.Scopes,
		limiter:    drops.NewLimiter(),
		partitions: deps.Partitions,
		options:    options,
		queue:      newQueue(options.QueueDeliveries, options.QueueBytes),
		metrics:    newMetrics(deps.Registerer, deps.Scopes),
		log:        deps.Log,
		alone:      make(chan struct{}, SpareConnections),
	}
	b.running, b.cut = context.WithCancel(context.Background())
	for range options.Committers {
		b.working.Go(b.commitBatches)
	}
	return b, nil
}

// Full implements providers.Settler.
func (b *Inbox) Full() bool { return b.queue.full() }

// Stop refuses new work, settles what it has, and returns when all of it has ended. When ctx ends, it gives up the
// running transactions, because a server that does not respond would hold each for seconds. Their deliveries have
// failed; if they were committed after all, the vendor's repeat is a duplicate.
func (b *Inbox) Stop(ctx context.Context) {
	defer context.AfterFunc(ctx, b.cut)()
	b.queue.close()
	b.working.Wait()
	b.straggling.Wait()
	b.cut()
}
