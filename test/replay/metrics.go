package replay

import (
	"strings"

	dto "github.com/prometheus/client_model/go"

	"webhook-gateway/internal/capture"
)

// OutcomesOf returns the outcomes of everything that a gateway received, from its metrics.
func OutcomesOf(families []*dto.MetricFamily) Outcomes {
	outcomes := make(Outcomes)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := ""
			switch f.GetName() {
			case "gateway_deliveries_accepted_total":
				name = capture.Accepted
			case "gateway_handshakes_total":
				name = capture.Handshake
			case "gateway_deliveries_dropped_total", "gateway_requests_rejected_total":
				name = label(m, "reason")
			}
			if n := int(m.GetCounter().GetValue()); name != "" && n > 0 {
				outcomes[name] += n
			}
		}
	}
	return outcomes
}

// Conserved reports whether every received delivery has exactly one ending, or is waiting for it.
func Conserved(families []*dto.MetricFamily) bool {
	sums := make(map[string]float64)
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "gateway_deliveries_")
		if !ours {
			continue
		}
		for _, m := range f.GetMetric() {
			sums[strings.TrimSuffix(name, "_total")] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sums["received"]+sums["recovered"] == sums["accepted"]+sums["dropped"]+sums["failed"]+sums["waiting"]
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
