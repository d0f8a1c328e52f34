package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/configs"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/preflight"
	"webhook-gateway/jobs"
)

// SettingError is an error in a setting, or in a file that replaces settings.
type SettingError struct{ Err error }

// DatabaseError says that the database at DATABASE_URL must not be used.
type DatabaseError struct{ Err error }

func (e SettingError) Error() string  { return e.Err.Error() }
func (e SettingError) Unwrap() error  { return e.Err }
func (e DatabaseError) Error() string { return e.Err.Error() }
func (e DatabaseError) Unwrap() error { return e.Err }

const (
	// The maximum time for one attempt to reach PostgreSQL at start; the next one follows after the pause.
	startAttempt = 30 * time.Second
	startPause   = 500 * time.Millisecond
	startLogged  = 10 * time.Second // how often it logs that it waits
)

// listen opens both listeners first, so that an address in use ends the process at once.
func (g *Gateway) listen() (public, private net.Listener, err error) {
	if public, err = net.Listen("tcp", g.Config.Listen); err != nil {
		return nil, nil, SettingError{fmt.Errorf("listen on GATEWAY_LISTEN: %w", err)}
	}
	if private, err = net.Listen("tcp", g.Config.AdminListen); err != nil {
		public.Close()
		return nil, nil, SettingError{fmt.Errorf("listen on GATEWAY_ADMIN_LISTEN: %w", err)}
	}
	return public, private, nil
}

// onceOpen answers vendors 503 until the start is over.
func (g *Gateway) onceOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.open.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// start checks the database and reads what receiving needs. While PostgreSQL is away it waits, unless the settings say
// otherwise, and reports that in the log and at /readyz. An error that waiting cannot fix ends it at once.
func (g *Gateway) start(ctx context.Context, at Addresses) error {
	began := time.Now()
	var logged time.Time
	for {
		err := g.prepare(ctx)
		switch {
		case err == nil:
			if !logged.IsZero() {
				g.Log.Info("PostgreSQL answers", "waited", time.Since(began).Round(time.Millisecond).String())
			}
			return nil
		case !g.Config.WaitForPostgres, !pg.Passing(err), ctx.Err() != nil:
			return err
		}
		g.admin.SetUnready("waiting for PostgreSQL: " + err.Error())
		if time.Since(logged) >= startLogged {
			logged = time.Now()
			g.Log.Warn("waiting for PostgreSQL", "waited", time.Since(began).Round(time.Second).String(), "err", err,
				"listen", at.Public.String(), "admin_listen", at.Admin.String())
		}
		select {
		case <-time.After(startPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// prepare makes one attempt to start.
func (g *Gateway) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startAttempt, fmt.Errorf("it took longer than %s", startAttempt))
	defer cancel()
	if g.check != nil {
		if err := g.check(ctx); err != nil {
			return err
		}
	}
	err := g.ensureDays(ctx)
	if err != nil {
		return unusable(err)
	}
	if err := g.directory.Load(ctx); err != nil {
		return unusable(fmt.Errorf("load sources and jobs: %w", err))
	}
	return nil
}

// ensureDays creates the inbox's days. If one of next week cannot be created now, for example while the table is
// analyzed, the gateway starts anyway: every sweep tries again.
func (g *Gateway) ensureDays(ctx context.Context) error {
	_, err := g.partitions.Ensure(ctx)
	if err == nil {
		return nil
	}
	until, unknown := g.partitions.Until(ctx)
	if unknown != nil || !until.After(time.Now()) {
		return err
	}
	g.Log.Warn("inbox days not made", "there_until", until, "err", err)
	return nil
}

// checkStart refuses a database that must not be used, and logs a warning for risks that the settings accept.
func (g *Gateway) checkStart(ctx context.Context) error {
	t := preflight.Target{Pool: g.Pool, URL: g.Config.DatabaseURL.Reveal(), Keys: g.Keys, AcceptFsyncOff: g.Config.AcceptFsyncOff}
	if err := preflight.Check(ctx, t); err != nil {
		return unusable(err)
	}
	server, err := pg.Describe(ctx, g.Pool)
	if err != nil {
		return unusable(err)
	}
	if !server.Fsync {
		g.fsyncOff.Set(1)
		g.Log.Warn("PostgreSQL reports fsync = off, and GATEWAY_ACCEPT_FSYNC_OFF accepts it: " +
			"unless the provider makes commits durable in another way, a crash loses acknowledged deliveries")
	}
	return nil
}

func newFsyncOff(reg prometheus.Registerer) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gateway_db_fsync_off",
		Help: "1: the server reported fsync = off at the start, and GATEWAY_ACCEPT_FSYNC_OFF accepted it.",
	})
	reg.MustRegister(g)
	return g
}

// unusable converts an error of the start to a DatabaseError; an error of GATEWAY_SECRETS_KEY stays a setting error.
func unusable(err error) error {
	if err == nil || errors.Is(err, jobs.ErrKeys) {
		return err
	}
	return DatabaseError{pg.Unavailable(err)}
}

// clientAddress returns the address for the log line: the connection's, unless that is a trusted proxy's. Any client
// can send an X-Forwarded-For.
func clientAddress(proxies configs.Networks) echo.IPExtractor {
	trusted := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		trusted = append(trusted, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(trusted...)
}
