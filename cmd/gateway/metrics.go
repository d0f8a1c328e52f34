package main

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registerProcess registers what a process knows of itself.
func registerProcess(reg prometheus.Registerer, pool *pgxpool.Pool) {
	b := buildOf()
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
		newPoolCollector(pool),
	)
}

// poolCollector reports the database pool, read at the scrape.
type poolCollector struct {
	pool *pgxpool.Pool

	connections, limit, acquires, waits, waited *prometheus.Desc
}

func newPoolCollector(pool *pgxpool.Pool) *poolCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gateway_db_pool_"+name, help, labels, nil)
	}
	return &poolCollector{
		pool:        pool,
		connections: desc("connections", "Connections to PostgreSQL, by what they do.", "state"),
		limit:       desc("max_connections", "How many connections the pool may open."),
		acquires:    desc("acquires_total", "Connections handed out."),
		waits:       desc("empty_acquires_total", "Connections handed out only after waiting for one."),
		waited:      desc("acquire_wait_seconds_total", "Time spent waiting for a connection."),
	}
}

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connections, c.limit, c.acquires, c.waits, c.waited} {
		ch <- d
	}
}

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
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
