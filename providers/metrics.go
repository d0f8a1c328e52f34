package providers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is how a request ended, as a label.
type outcome string

const (
	outcomeAccepted  outcome = "accepted"
	outcomeDropped   outcome = "dropped"
	outcomeHandshake outcome = "handshake"
	outcomeRejected  outcome = "rejected"
	outcomeFailed    outcome = "failed"
)

// rejection is why a request was not verified, as a label.
type rejection string

const (
	rejectedUnsigned    rejection = "unsigned"
	rejectedMismatch    rejection = "mismatch"
	rejectedStale       rejection = "stale"
	rejectedTooLarge    rejection = "too_large"
	rejectedSlow        rejection = "slow"
	rejectedBroken      rejection = "broken"
	rejectedNoSecret    rejection = "no_secret"
	rejectedUnconfirmed rejection = "unconfirmed"
	rejectedOverloaded  rejection = "overloaded"
)

type metrics struct {
	rejections *prometheus.CounterVec
	handshakes *prometheus.CounterVec
	answers    *prometheus.CounterVec
	ack        *prometheus.HistogramVec
	verifies   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, list []Provider) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		rejections: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_rejected_total",
			Help: "Requests that proved nothing and were not acknowledged, by reason. Nothing of them is stored.",
		}, []string{"provider", "reason"}),
		handshakes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_handshakes_total",
			Help: "Checks of a URL by the vendor that were answered: challenges, URL verifications, TLS probes.",
		}, []string{"provider"}),
		answers: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_vendor_answers_total",
			Help: "Answers given on a provider's routes, by HTTP status. Vendors switch a subscription off for too many that are not 2xx.",
		}, []string{"provider", "code"}),
		ack: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gateway_ack_duration_seconds",
			Help: "Time from a request's arrival to its answer. Slack waits 3 s, Nylas 10 s; the aim is 1 s.",
			// 1 is the aim, 3 and 10 are the vendors' limits: each must be the edge of a bucket.
			Buckets: []float64{.001, .0025, .005, .01, .015, .025, .04, .05, .1, .25, .5, 1, 2, 3, 5, 10},
		}, []string{"provider", "outcome"}),
		verifies: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_signature_verifications_total",
			Help: "Signatures that verified, by secret. A previous secret at zero for a day may be dropped.",
		}, []string{"provider", "secret"}),
	}
	for _, p := range list {
		m.initSeries(p.Name())
	}
	return m
}

// initSeries creates every series of a provider at zero: increase() misses the first event of a series that begins at
// 1.
func (m *metrics) initSeries(provider string) {
	for _, reason := range []rejection{
		rejectedUnsigned, rejectedMismatch, rejectedStale, rejectedTooLarge,
		rejectedSlow, rejectedBroken, rejectedNoSecret, rejectedUnconfirmed, rejectedOverloaded,
	} {
		m.rejections.WithLabelValues(provider, string(reason))
	}
	m.handshakes.WithLabelValues(provider)
	for _, code := range []int{
		http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable,
	} {
		m.answers.WithLabelValues(provider, strconv.Itoa(code))
	}
	for _, out := range []outcome{outcomeAccepted, outcomeDropped, outcomeHandshake, outcomeRejected, outcomeFailed} {
		m.ack.WithLabelValues(provider, string(out))
	}
	m.verifies.WithLabelValues(provider, "current")
	m.verifies.WithLabelValues(provider, "previous")
}

func (m *metrics) rejected(provider string, reason rejection) {
	m.rejections.WithLabelValues(provider, string(reason)).Inc()
}

func (m *metrics) handshake(provider string) { m.handshakes.WithLabelValues(provider).Inc() }

func (m *metrics) verified(provider string, previous bool) {
	secret := "current"
	if previous {
		secret = "previous"
	}
	m.verifies.WithLabelValues(provider, secret).Inc()
}

func (m *metrics) answered(provider string, out outcome, status int, took time.Duration) {
	m.answers.WithLabelValues(provider, strconv.Itoa(status)).Inc()
	m.ack.WithLabelValues(provider, string(out)).Observe(took.Seconds())
}
