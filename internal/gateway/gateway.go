// Package gateway is a running gateway: it puts the parts together, in the order in which a delivery flows through them,
// and starts and stops them.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/admin"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/connections"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/logsink"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Addresses are where a gateway listens.
type Addresses struct{ Public, Admin net.Addr }

// Serve runs a gateway for the vendors until ctx ends, then drains it. It logs to a writer that may be slow, or stuck.
// ready, if given, is called once it receives. A wrong setting is a SettingError, a database that must not be used a
// DatabaseError.
func Serve(ctx context.Context, cfg configs.Config, vendors []providers.Provider, logTo io.Writer, ready func(Addresses)) error {
	signal.Ignore(syscall.SIGPIPE) // whatever reads the log may end before the gateway does
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return SettingError{fmt.Errorf("make GATEWAY_STATE_DIR: %w", err)}
	}
	keys, err := jobs.NewKeys(cfg.SecretsKey.Reveal())
	if err != nil {
		return err
	}
	pool, err := pg.Open(ctx, cfg.DatabaseURL.Reveal(), int32(cfg.Committers)+inbox.SpareConnections+4, idempotency.WatchCommits)
	if err != nil {
		return err
	}
	defer pg.Close(pool)

	tuneGC(cfg)
	reg := prometheus.NewRegistry()
	RegisterProcess(reg, pool)
	sink := logsink.New(logTo, reg)
	defer sink.Close()
	g, err := New(Base{Config: cfg, Vendors: vendors, Pool: pool, Keys: keys, Registry: reg, Log: NewLogger(sink, cfg)})
	if err != nil {
		return err
	}
	g.check = g.checkStart
	return g.Run(ctx, ready)
}

// Base holds what the parts of a gateway need.
type Base struct {
	Config   configs.Config
	Vendors  []providers.Provider
	Pool     *pgxpool.Pool
	Keys     *jobs.Keys
	Registry *prometheus.Registry
	Log      *slog.Logger
}

// Gateway holds the parts of a running gateway, in the order of the flow.
type Gateway struct {
	Base
	receiver  *providers.Receiver
	directory *jobs.Directory
	inbox     *inbox.Inbox
	sweeper   *inbox.Sweeper
	recorder  *capture.Recorder // nil: nothing is captured
	admin     *admin.Handler

	connections *connections.Limit
	partitions  *inbox.Partitions
	check       func(context.Context) error // checks the database at the start; may be nil
	fsyncOff    prometheus.Gauge
	open        atomic.Bool // the start is over: requests are received
}

// New puts the parts together. It does not talk to PostgreSQL. Run or Stop ends what it starts.
func New(b Base) (*Gateway, error) {
	vendors := b.Vendors
	names := make([]string, len(vendors))
	for i, v := range vendors {
		names[i] = v.Name()
	}
	plane, err := idempotency.NewService(b.Pool, idempotency.Options{})
	if err != nil {
		return nil, err
	}
	scopes, err := inbox.Scopes(vendors)
	if err != nil {
		return nil, err
	}
	partitions := inbox.NewPartitions(b.Pool)
	directory := jobs.NewDirectory(b.Pool, b.Keys, b.Log, b.Registry)
	ledger := drops.NewLedger(names)
	b.Registry.MustRegister(ledger)

	box, err := inbox.New(inbox.Deps{
		Pool: b.Pool, Keys: plane, Partitions: partitions, Registerer: b.Registry, Scopes: scopes, Log: b.Log,
	}, inbox.Options{
		QueueDeliveries: b.Config.QueueDeliveries,
		QueueBytes:      b.Config.QueueBytes,
		BatchDeliveries: b.Config.BatchDeliveries,
		BatchBytes:      b.Config.BatchBytes,
		Committers:      b.Config.Committers,
	})
	if err != nil {
		return nil, err
	}
	recorder, err := newRecorder(b, directory)
	if err != nil {
		return nil, err
	}
	gate := providers.NewGate(vendors, directory, box, ledger, b.Config.MaxInflatedBytes)
	receiver := providers.NewReceiver(vendors, gate, providers.Limits{
		Body: b.Config.MaxBodyBytes, BodyBudget: b.Config.BodyBudgetBytes, Read: b.Config.ReadTimeout, Settle: b.Config.SettleTimeout,
	}, providers.Deps{Registerer: b.Registry, Log: b.Log, Observer: observer(recorder)})
	sweeper, err := inbox.NewSweeper(b.Pool, inbox.Retention{Inbox: b.Config.InboxRetention, Drops: b.Config.DropsRetention}, b.Registry, b.Log)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		Base: b, receiver: receiver, directory: directory, inbox: box, sweeper: sweeper, recorder: recorder,
		admin: admin.New(admin.Options{Listen: b.Config.AdminListen, Open: b.Config.AdminOpen, Pprof: b.Config.Pprof}, b.Registry, directory), partitions: partitions, fsyncOff: newFsyncOff(b.Registry),
		connections: connections.New(connections.FitFiles(b.Config.MaxConnections, b.Log), receiver.Shed, b.Registry),
	}, nil
}

// Run listens, waits for PostgreSQL, receives, and drains along the flow once ctx ends: unready, no new
// connections, every request answered, the last batch committed, then the background work and the admin
// listener.
func (g *Gateway) Run(ctx context.Context, ready func(Addresses)) error {
	if g.recorder != nil {
		defer g.recorder.Stop()
	}
	defer g.inbox.Stop(context.WithoutCancel(ctx))
	public, private, err := g.listen()
	if err != nil {
		return err
	}
	door := g.publicServer()
	public = g.connections.Listener(public)
	defer door.Close()
	adminServer := &http.Server{Handler: g.admin, ReadHeaderTimeout: 5 * time.Second}
	defer adminServer.Close()
	failed := make(chan error, 2)
	go func() { failed <- door.Serve(g.receiver.Watch(public)) }()
	go func() { failed <- adminServer.Serve(private) }()
	at := Addresses{Public: public.Addr(), Admin: private.Addr()}
	if err := g.start(ctx, at); err != nil {
		return err
	}
	stopBackground := g.background(ctx)
	defer stopBackground()
	g.open.Store(true)
	g.admin.SetReady()
	g.Log.Info("receiving", "listen", at.Public.String(), "admin_listen", at.Admin.String())
	if ready != nil {
		ready(at)
	}

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	g.Log.Info("draining", "delay", g.Config.ShutdownDelay.String())
	g.admin.SetUnready("draining")
	time.Sleep(g.Config.ShutdownDelay)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.Config.ShutdownTimeout)
	defer cancel()
	if late := door.Shutdown(drain); late != nil {
		err = errors.Join(err, fmt.Errorf("answer requests under way: %w", late))
		_ = door.Close()
	}
	g.inbox.Stop(drain) // the admin listener goes on until the last delivery has its ending
	_ = adminServer.Close()
	g.Log.Info("stopped")
	return err
}

// Stop ends a gateway that was made and not Run.
func (g *Gateway) Stop(ctx context.Context) { g.inbox.Stop(ctx) }

// background follows the directory and sweeps, until stop is called; stop waits for both.
func (g *Gateway) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { g.directory.Run(ctx) })
	running.Go(func() { g.sweeper.Run(ctx, g.Config.SweepInterval) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (g *Gateway) publicServer() *http.Server {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = clientAddress(g.Config.TrustedProxies)
	g.receiver.Mount(e)
	e.Match([]string{http.MethodGet, http.MethodHead}, "/healthz", echo.WrapHandler(http.HandlerFunc(g.admin.Healthz)))
	return &http.Server{
		Handler:           g.onceOpen(e),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10*time.Second + g.Config.ReadTimeout, // for what no route takes
		WriteTimeout:      g.Config.ReadTimeout + g.Config.SettleTimeout + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // the server reads 4 KiB more
		ConnState:         g.connections.Follow,
		ErrorLog:          slog.NewLogLogger(g.Log.Handler(), slog.LevelWarn),
	}
}
