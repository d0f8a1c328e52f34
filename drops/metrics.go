package drops

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type descs struct {
	received, recovered, accepted, dropped, failed, waiting, last *prometheus.Desc
}

func newDescs() descs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"provider"}, labels...), nil)
	}
	return descs{
		received: desc("gateway_deliveries_received_total",
			"Verified deliveries that the vendor sent, every attempt. "+
				"At any scrape received + recovered = accepted + dropped + failed + waiting."),
		recovered: desc("gateway_deliveries_recovered_total",
			"Deliveries processed again without the vendor, by gateway drops redrive."),
		accepted: desc("gateway_deliveries_accepted_total",
			"Deliveries that were stored in the inbox."),
		dropped: desc("gateway_deliveries_dropped_total",
			"Verified deliveries that were acknowledged but not kept, by reason. "+
				"gateway drops list shows all but duplicates.", "reason"),
		failed: desc("gateway_deliveries_failed_total",
			"Deliveries that could not be stored in time. The vendor was asked to send them again."),
		waiting: desc("gateway_deliveries_waiting",
			"Deliveries that are being settled."),
		last: desc("gateway_last_delivery_timestamp_seconds",
			"Unix time of the last verified delivery that the vendor sent; 0 until there is one."),
	}
}

// Describe implements prometheus.Collector.
func (l *Ledger) Describe(ch chan<- *prometheus.Desc) {
	d := &l.descs
	for _, desc := range []*prometheus.Desc{
		d.received, d.recovered, d.accepted, d.dropped, d.failed, d.waiting, d.last,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (l *Ledger) Collect(ch chan<- prometheus.Metric) {
	d := &l.descs
	for _, a := range l.snapshot() {
		count := func(desc *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), append([]string{a.provider}, labels...)...)
		}
		gauge := func(desc *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, a.provider)
		}
		count(d.received, a.received)
		count(d.recovered, a.recovered)
		count(d.accepted, a.accepted)
		for i, reason := range l.reasons {
			count(d.dropped, a.dropped[i], reason)
		}
		count(d.failed, a.failed)
		gauge(d.waiting, float64(a.waiting))
		gauge(d.last, seconds(a.last))
	}
}

// snapshot copies every account under one lock: a scrape shows one instant, and a slow scraper blocks no delivery.
func (l *Ledger) snapshot() []account {
	all := make([]account, 0, len(l.accounts))
	l.mu.Lock()
	for _, a := range l.accounts {
		all = append(all, *a)
	}
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b account) int { return strings.Compare(a.provider, b.provider) })
	return all
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
