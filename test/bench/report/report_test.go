package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"webhook-gateway/test/bench/load"
)

func filled() *Report {
	r := &Report{Rounds: 3, Each: time.Second, IdleMemory: 20 << 20, LoadedMemory: 70 << 20, MostMemory: 90 << 20}
	for round, v := range [][4]float64{{3000, 1000, 8000, 12000}, {6000, 3000, 8000, 24000}, {9000, 3000, 8000, 12000}} {
		for i, name := range []string{"fresh", "pgbench", "http alone", "settling alone"} {
			r.Add(name, Sample{Round: round, Value: v[i], Deliveries: 10, ServerCPU: time.Millisecond, WAL: 25000, Inbox: 21000, Keys: 6000})
		}
	}
	r.Add("steady 1000/s", Sample{
		Value: 1000, Deliveries: 3000, ServerCPU: 900 * time.Millisecond, PostgresCPU: 400 * time.Millisecond, LoadCPU: 200 * time.Millisecond,
		Result: &load.Result{
			P50: 2 * time.Millisecond, P99: 9 * time.Millisecond,
			Answered: 2000, Elapsed: 2 * time.Second, AllOK: 3000, // a second of warming up
		},
	})
	return r
}

func TestMediansAndRatios(t *testing.T) {
	t.Parallel()
	r := filled()
	if got := r.Median("fresh"); got != 6000 {
		t.Errorf("median %v", got)
	}
	if diff := cmp.Diff([]float64{3, 2, 3}, r.ratios("fresh", "pgbench")); diff != "" {
		t.Error(diff)
	}
	nearly := cmpopts.EquateApprox(0, 1e-9)
	if diff := cmp.Diff([]float64{.625, 1, 1.875}, r.shares(), nearly); diff != "" {
		t.Error(diff)
	}
	if got := Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median of four: %v", got)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	table := filled().Markdown()
	for _, row := range []string{
		"| 6000 (3000–9000) | 3000 (1000–3000) | **3.00 (2.00–3.00)** | ≥ 2.5, aim 3 |",
		"| share of the ceiling 1/(1/H + 1/D) | 6000 (3000–9000) | H 8000, D 12000 |",
		"| ACK at a steady 1,000/s, p50 / p99 | 2.0 (2.0–2.0) / **9.0 (9.0–9.0)** ms | 1000/s |",
		"| resident memory, idle / most under load / most of the whole run, MiB | 20 / 70 / 90 |",
		"| fresh | 6000 (3000–9000) | 100 |  |  |  | 2500 | 2100 | 600 |",
		"| steady 1000/s | 1000 (1000–1000) | 300 | 133 | 67 | 0.50 |",
	} {
		if !strings.Contains(table, row) {
			t.Errorf("lacks %s\n%s", row, table)
		}
	}
	for _, absent := range []string{"COPY", "| duplicates", "gzip", "half of", "ran out"} {
		if strings.Contains(table, absent) {
			t.Errorf("tells of %s, which was not measured", absent)
		}
	}
}
