// Package admin is a gateway's private listener: metrics, liveness, readiness and, if enabled, profiles.
package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"webhook-gateway/configs"
)

// stale is the age of the directory's last read at which the gateway becomes unready: longer than the hiccup of a
// failover, shorter than a vendor waits.
const stale = 10 * time.Second

// Directory says how current the sources and jobs are.
type Directory interface {
	Age() time.Duration // time since the last successful read
	ReadOnly() string   // why the server accepts no writes; empty when it does
}

// Options configure the listener.
type Options struct {
	Listen string // its address
	Open   bool   // answer requests for any host name, not only this machine's
	Pprof  bool   // serve profiles, if Listen is on loopback
}

// Handler answers the private listener's requests. It is unready until SetReady. It is safe for concurrent use.
type Handler struct {
	http.Handler
	directory Directory
	unready   atomic.Pointer[string] // why it does not receive; nil once it does
}

// New returns a Handler that shows the metrics of reg.
func New(o Options, reg *prometheus.Registry, directory Directory) *Handler {
	mux := http.NewServeMux()
	a := &Handler{Handler: mux, directory: directory}
	a.SetUnready("starting")
	if !o.Open {
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
	if o.Pprof && configs.OnLoopback(o.Listen) {
		runtime.SetMutexProfileFraction(100) // otherwise /debug/pprof/mutex is empty
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return a
}

// thisMachine answers only requests that name this machine as their host. A web page in a browser on this machine can
// make its own name resolve to 127.0.0.1, and could then read the answers.
func thisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !configs.OnLoopback(r.Host) {
			http.Error(w, "the admin listener answers to localhost, 127.0.0.1 and [::1]; GATEWAY_ADMIN_OPEN=true lets it answer to any host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// SetReady records that deliveries are received.
func (a *Handler) SetReady() { a.unready.Store(nil) }

// SetUnready records why deliveries are not received.
func (a *Handler) SetUnready(why string) { a.unready.Store(&why) }

// why returns why a delivery would not be stored now; empty if it would.
func (a *Handler) why() string {
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

func (a *Handler) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := a.why(); why != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, why)
		return
	}
	fmt.Fprintln(w, "ready")
}

// Healthz answers like /readyz, but with the status only. It is for a load balancer that reaches just the public
// listener.
func (a *Handler) Healthz(w http.ResponseWriter, _ *http.Request) {
	if a.why() != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
