package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"webhook-gateway/configs"
	"webhook-gateway/jobs"
)

// stale is how long the directory may not have answered before the gateway calls itself unready: longer
// than a failover's hiccup, shorter than a vendor's patience.
const stale = 10 * time.Second

// admin is the private listener: metrics, liveness, readiness, and profiles where they are allowed.
type admin struct {
	http.Handler
	directory *jobs.Directory
	unready   atomic.Pointer[string] // why it does not receive; nil once it does
}

func newAdmin(cfg configs.Config, reg *prometheus.Registry, directory *jobs.Directory) *admin {
	mux := http.NewServeMux()
	a := &admin{Handler: mux, directory: directory}
	a.setUnready("starting")
	if !cfg.AdminOpen {
		a.Handler = thisMachine(mux)
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gateway_ready",
		Help: "Whether deliveries are received and can be stored, as /readyz says.",
	}, func() float64 {
		if a.why() == "" {
			return 1
		}
		return 0
	}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry: reg, EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 5 * time.Second,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", a.readyz)
	if cfg.Pprof && configs.OnLoopback(cfg.AdminListen) {
		runtime.SetMutexProfileFraction(100) // or /debug/pprof/mutex would be empty
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return a
}

// thisMachine answers only requests that name this machine as their host. A page that a browser on this machine shows
// can have its own name resolve to 127.0.0.1, and would read the answers.
func thisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !configs.OnLoopback(r.Host) {
			http.Error(w, "the admin listener answers to localhost, 127.0.0.1 and [::1]; GATEWAY_ADMIN_OPEN=true lets it answer to any host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (a *admin) setReady() { a.unready.Store(nil) }

func (a *admin) setUnready(why string) { a.unready.Store(&why) }

// why says why no delivery would be stored now; empty: it would.
func (a *admin) why() string {
	if unready := a.unready.Load(); unready != nil {
		return "not receiving: " + *unready
	}
	if age := a.directory.Age(); age > stale {
		return fmt.Sprintf("PostgreSQL has not answered for %s", age.Round(time.Second))
	}
	if readOnly := a.directory.ReadOnly(); readOnly != "" {
		return "PostgreSQL takes no writes: " + readOnly
	}
	return ""
}

func (a *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := a.why(); why != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, why)
		return
	}
	fmt.Fprintln(w, "ready")
}

// healthz is readyz for a load balancer that can only ask the public listener: the status alone.
func (a *admin) healthz(w http.ResponseWriter, _ *http.Request) {
	if a.why() != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// clientAddress tells whose address a log line shows: the connection's unless that is a proxy's. Any client can
// send an X-Forwarded-For.
func clientAddress(proxies configs.Networks) echo.IPExtractor {
	trusted := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		trusted = append(trusted, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(trusted...)
}

func newLogger(w io.Writer, cfg configs.Config) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.LogLevel}))
}
