package jobs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type directoryMetrics struct {
	succeeded prometheus.Counter
	failed    prometheus.Counter
	sources   prometheus.Gauge
	jobs      prometheus.Gauge
	unopened  prometheus.Gauge
	old       prometheus.Gauge
}

func newDirectoryMetrics(reg prometheus.Registerer, age func() time.Duration) *directoryMetrics {
	with := promauto.With(reg)
	reads := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_directory_refreshes_total",
		Help: "Reads of the sources and jobs that changed, by outcome.",
	}, []string{"outcome"})
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gateway_directory_age_seconds",
		Help: "How long ago the newest read of sources and jobs that succeeded began.",
	}, func() float64 { return age().Seconds() })
	return &directoryMetrics{
		succeeded: reads.WithLabelValues("succeeded"),
		failed:    reads.WithLabelValues("failed"),
		sources: with.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_directory_sources",
			Help: "Sources held in memory.",
		}),
		jobs: with.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_directory_jobs",
			Help: "Jobs held in memory, closed ones included.",
		}),
		unopened: with.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_directory_unopened_secrets",
			Help: "Secrets that are set but cannot be opened with GATEWAY_SECRETS_KEY.",
		}),
		old: with.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_directory_old_seals",
			Help: "Secrets that are not sealed with the first key of GATEWAY_SECRETS_KEY in the newest form; gateway secrets reseal seals them anew.",
		}),
	}
}

func (m *directoryMetrics) read(ok bool) {
	if ok {
		m.succeeded.Inc()
	} else {
		m.failed.Inc()
	}
}
