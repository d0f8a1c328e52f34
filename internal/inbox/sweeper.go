package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
)

// Retention is how long the inbox and the drops are kept. Each key's scope knows its own.
type Retention struct {
	Inbox time.Duration
	Drops time.Duration
}

// The tables that a sweep goes through, as metric labels and in its report.
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

// Sweeper removes what is past its retention and makes the inbox's next days. Any number may run at once,
// on any gateways, beside all writers; none of them waits for another.
type Sweeper struct {
	keys       *idempotency.Service
	swept      *idempotency.Sweeper
	drops      *drops.Store
	partitions *Partitions
	retention  Retention
	removed    *prometheus.CounterVec
	backlog    *prometheus.GaugeVec
	log        *slog.Logger
}

// NewSweeper returns a sweeper for the database of the pool. Its metrics are registered with reg.
func NewSweeper(pool *pgxpool.Pool, retention Retention, reg prometheus.Registerer, log *slog.Logger) (*Sweeper, error) {
	keys := idempotency.NewService(pool, idempotency.Options{})
	swept, err := idempotency.NewSweeper(keys, idempotency.SweepOptions{Limit: passRows, Passes: passes}, log)
	if err != nil {
		return nil, err
	}
	f := promauto.With(reg)
	s := &Sweeper{
		keys:       keys,
		swept:      swept,
		drops:      drops.NewStore(pool),
		partitions: NewPartitions(pool),
		retention:  retention,
		removed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_sweep_rows_total",
			Help: "What retention has removed: rows, and for webhook_deliveries whole days.",
		}, []string{"table"}),
		backlog: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_sweep_backlog_rows",
			Help: "What is past its retention and still there, as the last sweep found it: rows, and for webhook_deliveries whole days.",
		}, []string{"table"}),
		log: log,
	}
	for _, table := range []string{keysTable, dropsTable, inboxTable} {
		s.removed.WithLabelValues(table)
		s.backlog.WithLabelValues(table)
	}
	return s, nil
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

// Sweep goes through every table once. A table that cannot be swept does not keep the others from it.
func (s *Sweeper) Sweep(ctx context.Context) ([]Swept, error) {
	_, errDays := s.partitions.Ensure(ctx)
	keys, errKeys := s.sweepKeys(ctx)
	kept, errDrops := s.sweepDrops(ctx)
	days, errInbox := s.retireDays(ctx)
	report := []Swept{keys, kept, days}
	for _, t := range report {
		s.removed.WithLabelValues(t.Table).Add(float64(t.Removed))
		s.backlog.WithLabelValues(t.Table).Set(float64(t.Backlog))
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
