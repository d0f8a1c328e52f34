package gateway

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"webhook-gateway/internal/connections"
)

// RegisterProcess registers the metrics of the process itself.
func RegisterProcess(reg prometheus.Registerer, pool *pgxpool.Pool) {
	b := ReadBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "gateway_build_info",
		Help: "What this gateway was built from; always 1.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "revision": b.Revision, "goversion": b.Go,
		},
	})
	info.Set(1)
	reg.MustRegister(
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		connections.NewPoolCollector(pool),
	)
}
