package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
)

// Retention is how long the inbox and the drops are kept. Each key's scope knows its own.
type Retention struct {
	Inbox time.Duration
	Drops time.Duration
}

// The tables that a sweep covers, as metric labels and in its report.
const (
	keysTable  = "idempotency_keys"
	dropsTable = "webhook_drops"
	inboxTable = "webhook_deliveries"
)

// The bounds of one run over a table of rows. A pass's rows stay locked until it ends.
const (
	passRows = 1000
	passes   = 1000
)

// Swept is what one run did to one table. The inbox is counted in days: a day is dropped whole.
type Swept struct {
	Table   string `json:"table"`
	Removed int    `json:"removed"`
	Backlog int    `json:"backlog"` // past retention and still there
}

// Sweeper removes what is past its retention and creates the inbox's next days. Any number may run at once, on any
// gateways, beside all writers; none of them waits for another.
type Sweeper struct {
	keys       *idempotency.Service
	swept      *idempotency.Sweeper
	drops      *drops.Store
	partitions *Partitions
	retention  Retention
	metrics    *sweepMetrics
	log        *slog.Logger
}

// NewSweeper returns a sweeper for the database of the pool. Its metrics are registered with reg.
func NewSweeper(pool *pgxpool.Pool, retention Retention, reg prometheus.Registerer, log *slog.Logger) (*Sweeper, error) {
	keys, err := idempotency.NewService(pool, idempotency.Options{})
	if err != nil {
		return nil, err
	}
	swept, err := idempotency.NewSweeper(keys, idempotency.SweepOptions{Limit: passRows, Passes: passes}, log)
	if err != nil {
		return nil, err
	}
	return &Sweeper{
		keys:       keys,
		swept:      swept,
		drops:      drops.NewStore(pool),
		partitions: NewPartitions(pool),
		retention:  retention,
		metrics:    newSweepMetrics(reg),
		log:        log,
	}, nil
}

// Run sweeps at once and then every interval, until ctx ends.
func (s *Sweeper) Run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("sweep failed", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep sweeps every table once. If one cannot be swept, it continues with the others.
func (s *Sweeper) Sweep(ctx context.Context) ([]Swept, error) {
	_, errDays := s.partitions.Ensure(ctx)
	// The end of the created days matters most if no more could be created.
	if until, err := s.partitions.Until(ctx); err != nil {
		errDays = errors.Join(errDays, err)
	} else {
		s.metrics.until.Set(float64(until.Unix()))
	}
	keys, errKeys := s.sweepKeys(ctx)
	kept, errDrops := s.sweepDrops(ctx)
	days, errInbox := s.retireDays(ctx)
	report := []Swept{keys, kept, days}
	for i, err := range []error{errKeys, errDrops, errInbox} {
		s.metrics.swept(report[i], err)
	}
	return report, errors.Join(errDays, errKeys, errDrops, errInbox)
}

func (s *Sweeper) sweepKeys(ctx context.Context) (Swept, error) {
	run, err := s.swept.Run(ctx)
	if err != nil {
		return Swept{Table: keysTable, Removed: run.Deleted}, err
	}
	left, err := s.keys.Backlog(ctx)
	return Swept{Table: keysTable, Removed: run.Deleted, Backlog: left.Rows}, err
}

func (s *Sweeper) sweepDrops(ctx context.Context) (Swept, error) {
	done := Swept{Table: dropsTable}
	for range passes {
		read, deleted, err := s.drops.Sweep(ctx, s.retention.Drops, passRows)
		done.Removed += deleted
		if err != nil {
			return done, err
		}
		if read < passRows {
			break
		}
	}
	// People make these: one pass a sweep keeps up with them.
	if _, err := s.drops.SweepRedrives(ctx, s.retention.Drops, passRows); err != nil {
		return done, err
	}
	var err error
	done.Backlog, err = s.drops.Backlog(ctx, s.retention.Drops)
	if err == nil && done.Backlog >= passRows {
		s.log.WarnContext(ctx, "sweep of webhook drops is behind", "backlog", done.Backlog)
	}
	return done, err
}

func (s *Sweeper) retireDays(ctx context.Context) (Swept, error) {
	done := Swept{Table: inboxTable}
	var err error
	if done.Removed, err = s.partitions.Retire(ctx, s.retention.Inbox); err != nil {
		return done, fmt.Errorf("retire inbox days: %w", err)
	}
	done.Backlog, err = s.partitions.Backlog(ctx, s.retention.Inbox)
	return done, err
}
