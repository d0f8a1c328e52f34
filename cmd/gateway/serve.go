package main

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
	"github.com/spf13/cobra"

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
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// wired lists the vendors that this gateway receives from. A new one is one line here.
func wired() []providers.Provider {
	return []providers.Provider{
		slack.New(),
		nylas.New(),
	}
}

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Receive webhooks until SIGTERM",
		Long: "Receive webhooks until SIGTERM or SIGINT, then finish and answer the requests in progress and exit with status 0.\n" +
			"Needs DATABASE_URL and GATEWAY_SECRETS_KEY; the schema must exist (gateway migrate up). It waits for PostgreSQL\n" +
			"if it does not answer yet, unless GATEWAY_WAIT_FOR_POSTGRES is false.",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, "DATABASE_URL", "GATEWAY_SECRETS_KEY")
			if err != nil {
				return err
			}
			err = serve(cmd.Context(), cfg, cmd.ErrOrStderr(), nil)
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // told to stop before it received anything
			}
			return err
		},
	}
}

// addresses are where a gateway listens.
type addresses struct{ Public, Admin net.Addr }

// serve runs a gateway until ctx ends, then drains it. It logs to a writer that may be slow, or stuck. ready,
// if given, is called once it receives.
func serve(ctx context.Context, cfg configs.Config, logTo io.Writer, ready func(addresses)) error {
	signal.Ignore(syscall.SIGPIPE) // whatever reads the log may end before the gateway does
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return settingError{fmt.Errorf("make GATEWAY_STATE_DIR: %w", err)}
	}
	keys, err := jobs.NewKeys(cfg.SecretsKey.Reveal())
	if err != nil {
		return err
	}
	pool, err := openPool(ctx, cfg.DatabaseURL.Reveal(), int32(cfg.Committers)+inbox.SpareConnections+4)
	if err != nil {
		return err
	}
	defer pg.Close(pool)

	tuneGC(cfg)
	reg := prometheus.NewRegistry()
	registerProcess(reg, pool)
	sink := logsink.New(logTo, reg)
	defer sink.Close()
	g, err := newGateway(base{cfg: cfg, pool: pool, keys: keys, reg: reg, log: newLogger(sink, cfg)})
	if err != nil {
		return err
	}
	g.check = g.checkStart
	return g.run(ctx, ready)
}

// base is what the parts of a gateway stand on.
type base struct {
	cfg  configs.Config
	pool *pgxpool.Pool
	keys *jobs.Keys
	reg  *prometheus.Registry
	log  *slog.Logger
}

// gateway is the parts of a running gateway, in the order of the flow.
type gateway struct {
	base
	receiver  *providers.Receiver
	directory *jobs.Directory
	inbox     *inbox.Inbox
	sweeper   *inbox.Sweeper
	recorder  *capture.Recorder // nil: nothing is captured
	admin     *admin.Handler

	connections *connections.Limit
	partitions  *inbox.Partitions
	check       func(context.Context) error // of the database, at the start; nil: none
	fsyncOff    prometheus.Gauge
	open        atomic.Bool // the start is over: requests are received
}

// newGateway puts the parts together. It does not talk to PostgreSQL.
func newGateway(b base) (*gateway, error) {
	vendors := wired()
	names := make([]string, len(vendors))
	for i, v := range vendors {
		names[i] = v.Name()
	}
	plane, err := idempotency.NewService(b.pool, idempotency.Options{})
	if err != nil {
		return nil, err
	}
	scopes, err := inbox.Scopes(vendors)
	if err != nil {
		return nil, err
	}
	partitions := inbox.NewPartitions(b.pool)
	directory := jobs.NewDirectory(b.pool, b.keys, b.log, b.reg)
	ledger := drops.NewLedger(names)
	b.reg.MustRegister(ledger)

	box, err := inbox.New(inbox.Deps{
		Pool: b.pool, Keys: plane, Partitions: partitions, Registerer: b.reg, Scopes: scopes, Log: b.log,
	}, inbox.Options{
		QueueDeliveries: b.cfg.QueueDeliveries,
		QueueBytes:      b.cfg.QueueBytes,
		BatchDeliveries: b.cfg.BatchDeliveries,
		BatchBytes:      b.cfg.BatchBytes,
		Committers:      b.cfg.Committers,
	})
	if err != nil {
		return nil, err
	}
	recorder, err := newRecorder(b, directory)
	if err != nil {
		return nil, err
	}
	gate := providers.NewGate(vendors, directory, box, ledger, b.cfg.MaxInflatedBytes)
	receiver := providers.NewReceiver(vendors, gate, providers.Limits{
		Body: b.cfg.MaxBodyBytes, BodyBudget: b.cfg.BodyBudgetBytes, Read: b.cfg.ReadTimeout, Settle: b.cfg.SettleTimeout,
	}, providers.Deps{Registerer: b.reg, Log: b.log, Observer: observer(recorder)})
	sweeper, err := inbox.NewSweeper(b.pool, inbox.Retention{Inbox: b.cfg.InboxRetention, Drops: b.cfg.DropsRetention}, b.reg, b.log)
	if err != nil {
		return nil, err
	}
	return &gateway{
		base: b, receiver: receiver, directory: directory, inbox: box, sweeper: sweeper, recorder: recorder,
		admin: admin.New(admin.Options{Listen: b.cfg.AdminListen, Open: b.cfg.AdminOpen, Pprof: b.cfg.Pprof}, b.reg, directory), partitions: partitions, fsyncOff: newFsyncOff(b.reg),
		connections: connections.New(connections.FitFiles(b.cfg.MaxConnections, b.log), receiver.Shed, b.reg),
	}, nil
}

// run listens, waits for PostgreSQL, receives, and drains along the flow once ctx ends: unready, no new
// connections, every request answered, the last batch committed, then the background work and the admin
// listener.
func (g *gateway) run(ctx context.Context, ready func(addresses)) error {
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
	at := addresses{Public: public.Addr(), Admin: private.Addr()}
	if err := g.start(ctx, at); err != nil {
		return err
	}
	stopBackground := g.background(ctx)
	defer stopBackground()
	g.open.Store(true)
	g.admin.SetReady()
	g.log.Info("receiving", "listen", at.Public.String(), "admin_listen", at.Admin.String())
	if ready != nil {
		ready(at)
	}

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	g.log.Info("draining", "delay", g.cfg.ShutdownDelay.String())
	g.admin.SetUnready("draining")
	time.Sleep(g.cfg.ShutdownDelay)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.ShutdownTimeout)
	defer cancel()
	if late := door.Shutdown(drain); late != nil {
		err = errors.Join(err, fmt.Errorf("answer requests under way: %w", late))
		_ = door.Close()
	}
	g.inbox.Stop(drain) // the admin listener goes on until the last delivery has its ending
	_ = adminServer.Close()
	g.log.Info("stopped")
	return err
}

// background follows the directory and sweeps, until stop is called; stop waits for both.
func (g *gateway) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { g.directory.Run(ctx) })
	running.Go(func() { g.sweeper.Run(ctx, g.cfg.SweepInterval) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (g *gateway) publicServer() *http.Server {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = clientAddress(g.cfg.TrustedProxies)
	g.receiver.Mount(e)
	e.Match([]string{http.MethodGet, http.MethodHead}, "/healthz", echo.WrapHandler(http.HandlerFunc(g.admin.Healthz)))
	return &http.Server{
		Handler:           g.onceOpen(e),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10*time.Second + g.cfg.ReadTimeout, // for what no route takes
		WriteTimeout:      g.cfg.ReadTimeout + g.cfg.SettleTimeout + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // the server reads 4 KiB more
		ConnState:         g.connections.Follow,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
}
