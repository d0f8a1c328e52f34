// Package ceiling measures the two halves of the gateway separately: HTTP without storing, and storing without HTTP.
// On one machine, where both share the processors, 1/(1/H + 1/D) is the throughput that the whole could reach if
// joining the halves cost nothing.
package ceiling

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/internal/logsink"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
)

// Spec configures a half.
type Spec struct {
	DatabaseURL string `json:"database_url"`
	SecretsKey  string `json:"secrets_key"`
	Listen      string `json:"listen"`
}

// half holds what both halves share with the gateway.
type half struct {
	config    configs.Config // the defaults
	vendors   []providers.Provider
	pool      *pgxpool.Pool
	directory *jobs.Directory
	log       *slog.Logger
	registry  *prometheus.Registry
	ledger    *drops.Ledger
}

func newHalf(ctx context.Context, spec Spec, connections int32) (*half, error) {
	config, err := configs.Load("", nil)
	if err != nil {
		return nil, err
	}
	keys, err := jobs.NewKeys(spec.SecretsKey)
	if err != nil {
		return nil, err
	}
	poolConfig, err := pgxpool.ParseConfig(spec.DatabaseURL)
	if err != nil {
		return nil, err
	}
	poolConfig.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, err
	}
	vendors, registry := []providers.Provider{nylas.New()}, prometheus.NewRegistry()
	h := &half{
		config: config, vendors: vendors, pool: pool, registry: registry,
		log:    slog.New(slog.NewJSONHandler(logsink.New(os.Stderr, registry), nil)), // as serve does
		ledger: drops.NewLedger([]string{vendors[0].Name()}),
	}
	h.directory = jobs.NewDirectory(pool, keys, h.log, h.registry)
	go h.directory.Run(ctx)
	if err := h.directory.Refresh(ctx, time.Now()); err != nil {
		pool.Close()
		return nil, err
	}
	return h, nil
}

// immediate reports every delivery as kept, and keeps nothing. Like the inbox it reports from another goroutine.
type immediate struct{ queue chan func() }

func newImmediate() *immediate {
	s := &immediate{queue: make(chan func(), 20_000)}
	go func() {
		for answer := range s.queue {
			answer()
		}
	}()
	return s
}

// Full implements providers.Settler.
func (*immediate) Full() bool { return false }

// Settle implements providers.Settler.
func (s *immediate) Settle(work *providers.Work, done func([]providers.Ending)) error {
	s.queue <- func() { done(make([]providers.Ending, len(work.Items))) }
	return nil
}

// ServeImmediate receives until ctx ends, like the gateway but without settling.
func ServeImmediate(ctx context.Context, spec Spec) error {
	h, err := newHalf(ctx, spec, 4)
	if err != nil {
		return err
	}
	defer h.pool.Close()
	gate := providers.NewGate(h.vendors, h.directory, newImmediate(), h.ledger, h.config.MaxInflatedBytes)
	receiver := providers.NewReceiver(h.vendors, gate, providers.Limits{
		Body: h.config.MaxBodyBytes, BodyBudget: h.config.BodyBudgetBytes, Read: h.config.ReadTimeout, Settle: h.config.SettleTimeout,
	}, providers.Deps{Registerer: h.registry, Log: h.log})
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	receiver.Mount(e)
	l, err := net.Listen("tcp", spec.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: e, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		WriteTimeout: h.config.ReadTimeout + h.config.SettleTimeout + 10*time.Second,
	}
	go func() {
		<-ctx.Done()
		_ = server.Close() // requests in progress no longer matter
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
