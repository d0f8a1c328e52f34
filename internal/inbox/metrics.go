package inbox

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

type metrics struct {
	batch    prometheus.Histogram
	duration prometheus.Histogram
	claims   *prometheus.CounterVec
	faults   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, scopes map[string]idempotency.Scope) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		batch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "gateway_settle_batch_size",
			Help:    "Deliveries in one settling transaction. It grows by itself under load; 1 is an idle gateway.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "gateway_settle_duration_seconds",
			Help:    "Time of one settling transaction, commit included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		claims: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_claims_total",
			Help: "Idempotency keys claimed at the door, by what the claim found.",
		}, []string{"scope", "outcome"}),
		faults: f.NewCounter(prometheus.CounterOpts{
			Name: "gateway_settle_faults_total",
			Help: "Times PostgreSQL refused a delivery, and a known-good one too: the schema, a trigger or the session is at fault. Alert on any.",
		}),
	}
	for _, scope := range scopes {
		for _, outcome := range []idempotency.Kind{
			idempotency.Claimed, idempotency.Completed, idempotency.Processing, idempotency.Conflict,
		} {
			m.claims.WithLabelValues(scope.String(), string(outcome))
		}
	}
	return m
}

func (m *metrics) claim(provider string, outcome idempotency.Kind) {
	m.claims.WithLabelValues(providers.ScopeName(provider), string(outcome)).Inc()
}
