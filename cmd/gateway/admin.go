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
	ready     atomic.Bool
}

func newAdmin(cfg configs.Config, reg *prometheus.Registry, directory *jobs.Directory) *admin {
	mux := http.NewServeMux()
	a := &admin{Handler: mux, directory: directory}
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry: reg, EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 5 * time.Second,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", a.readyz)
	if cfg.Pprof && isLoopback(cfg.AdminListen) {
		runtime.SetMutexProfileFraction(100) // or /debug/pprof/mutex would be empty
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return a
}

func (a *admin) setReady(ready bool) { a.ready.Store(ready) }

func (a *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	switch age := a.directory.Age(); {
	case !a.ready.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not receiving: starting or draining")
	case age > stale:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "PostgreSQL has not answered for %s\n", age.Round(time.Second))
	default:
		fmt.Fprintln(w, "ready")
	}
}

// isLoopback reports whether an address to listen on is reachable from this machine alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func newLogger(w io.Writer, cfg configs.Config) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.LogLevel}))
}
