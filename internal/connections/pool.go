package connections

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

type collector struct {
	pool *pgxpool.Pool

	connections, limit, acquires, waits, waited *prometheus.Desc
}

// NewPoolCollector returns the metrics of a pool, which are read when they are scraped.
func NewPoolCollector(pool *pgxpool.Pool) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gateway_db_pool_"+name, help, labels, nil)
	}
	return &collector{
		pool:        pool,
		connections: desc("connections", "Connections to PostgreSQL, by state.", "state"),
		limit:       desc("max_connections", "Maximum number of connections in the pool."),
		acquires:    desc("acquires_total", "Connections handed out."),
		waits:       desc("empty_acquires_total", "Connections handed out after a wait."),
		waited:      desc("acquire_wait_seconds_total", "Total time spent waiting for connections."),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connections, c.limit, c.acquires, c.waits, c.waited} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.pool.Stat()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.connections, float64(s.AcquiredConns()), "acquired")
	gauge(c.connections, float64(s.IdleConns()), "idle")
	gauge(c.connections, float64(s.ConstructingConns()), "constructing")
	gauge(c.limit, float64(s.MaxConns()))
	counter := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	counter(c.acquires, float64(s.AcquireCount()))
	counter(c.waits, float64(s.EmptyAcquireCount()))
	counter(c.waited, s.EmptyAcquireWaitTime().Seconds())
}
