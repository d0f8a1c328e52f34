package inbox

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type sweepMetrics struct {
	removed   *prometheus.CounterVec
	backlog   *prometheus.GaugeVec
	succeeded *prometheus.GaugeVec
	until     prometheus.Gauge
}

func newSweepMetrics(reg prometheus.Registerer) *sweepMetrics {
	f := promauto.With(reg)
	m := &sweepMetrics{
		removed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_sweep_rows_total",
			Help: "What retention has removed: rows, and for webhook_deliveries whole days.",
		}, []string{"table"}),
		backlog: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_sweep_backlog_rows",
			Help: "What is past its retention and still there, as the last sweep found it: rows, and for webhook_deliveries whole days.",
		}, []string{"table"}),
		succeeded: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gateway_sweep_last_success_timestamp_seconds",
			Help: "Unix time at which a sweep of the table last came to its end without an error; 0 until one has.",
		}, []string{"table"}),
		until: f.NewGauge(prometheus.GaugeOpts{
			Name: "gateway_inbox_partitioned_until_timestamp_seconds",
			Help: "Unix time up to which the inbox has a partition for every day, a week ahead when all is well. " +
				"Nothing can be stored from then on. 0 until the first sweep has looked.",
		}),
	}
	for _, table := range []string{keysTable, dropsTable, inboxTable} {
		m.removed.WithLabelValues(table)
		m.backlog.WithLabelValues(table)
		m.succeeded.WithLabelValues(table)
	}
	return m
}

// swept records the result of a sweep of one table. A failed sweep does not know the backlog: the last known value
// stays.
func (m *sweepMetrics) swept(t Swept, err error) {
	m.removed.WithLabelValues(t.Table).Add(float64(t.Removed))
	if err != nil {
		return
	}
	m.backlog.WithLabelValues(t.Table).Set(float64(t.Backlog))
	m.succeeded.WithLabelValues(t.Table).Set(float64(time.Now().UnixMilli()) / 1000)
}
