package drops

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// setup returns a ledger and the registry that scrapes it.
func setup(t *testing.T, providers ...string) (*Ledger, *prometheus.Registry) {
	t.Helper()
	l := NewLedger(providers)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(l)
	return l, reg
}

// scrape returns every series of one scrape, by name and label values.
func scrape(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]float64)
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "gateway_")
		for _, m := range f.GetMetric() {
			key := name
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			series[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return series
}

// balance returns what the books of a provider are out by.
func balance(series map[string]float64, provider string) float64 {
	in := series["deliveries_received_total "+provider] + series["deliveries_recovered_total "+provider]
	out := series["deliveries_accepted_total "+provider] + series["deliveries_failed_total "+provider] +
		series["deliveries_waiting "+provider]
	for _, reason := range Reasons() {
		out += series["deliveries_dropped_total "+provider+" "+string(reason)]
	}
	return in - out
}

func TestLedgerStartsAtZero(t *testing.T) {
	t.Parallel()
	_, reg := setup(t, "nylas", "slack")
	want := map[string]float64{}
	for _, p := range []string{"nylas", "slack"} {
		for _, name := range []string{
			"deliveries_received_total", "deliveries_recovered_total", "deliveries_accepted_total",
			"deliveries_failed_total", "deliveries_waiting", "last_delivery_timestamp_seconds",
		} {
			want[name+" "+p] = 0
		}
		for _, reason := range []string{"duplicate", "hash_mismatch", "unknown_job", "job_mismatch", "malformed"} {
			want["deliveries_dropped_total "+p+" "+reason] = 0
		}
	}
	if diff := cmp.Diff(want, scrape(t, reg)); diff != "" {
		t.Errorf("series of a new ledger (-want +got):\n%s", diff)
	}
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	_, reg := setup(t, "slack")
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestLedgerEndings(t *testing.T) {
	t.Parallel()
	l, reg := setup(t, "nylas", "slack")
	l.Receive("slack", 9)
	l.Recover("slack", 2)
	l.Receive("nylas", 1)
	endings := []Ending{{}, {}, {Failed: true}}
	for i, reason := range Reasons() {
		for range i {
			if reason != JobMismatch {
				endings = append(endings, Ending{Dropped: reason})
			}
		}
	}
	l.End("slack", endings...)

	got := scrape(t, reg)
	if got["last_delivery_timestamp_seconds slack"] == 0 {
		t.Error("the last delivery has no time")
	}
	want := map[string]float64{
		"deliveries_received_total slack": 9, "deliveries_recovered_total slack": 2,
		"deliveries_accepted_total slack": 2, "deliveries_failed_total slack": 1,
		"deliveries_waiting slack":                 1,
		"deliveries_dropped_total slack duplicate": 0, "deliveries_dropped_total slack hash_mismatch": 1,
		"deliveries_dropped_total slack unknown_job": 2, "deliveries_dropped_total slack job_mismatch": 0,
		"deliveries_dropped_total slack malformed": 4,
		"deliveries_received_total nylas":          1, "deliveries_recovered_total nylas": 0,
		"deliveries_accepted_total nylas": 0, "deliveries_failed_total nylas": 0,
		"deliveries_waiting nylas":                 1,
		"deliveries_dropped_total nylas duplicate": 0, "deliveries_dropped_total nylas hash_mismatch": 0,
		"deliveries_dropped_total nylas unknown_job": 0, "deliveries_dropped_total nylas job_mismatch": 0,
		"deliveries_dropped_total nylas malformed": 0,
	}
	delete(got, "last_delivery_timestamp_seconds slack")
	delete(got, "last_delivery_timestamp_seconds nylas")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestLedgerLastDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, reg := setup(t, "nylas", "slack")
		time.Sleep(90 * time.Minute)
		l.Receive("slack", 1)
		sent := float64(time.Now().Unix())
		time.Sleep(time.Hour)
		l.Recover("slack", 1)
		l.End("slack", Ending{}, Ending{})

		series := scrape(t, reg)
		if got := series["last_delivery_timestamp_seconds slack"]; got != sent {
			t.Errorf("slack's last delivery at %v, want %v: neither a recovery nor an ending is one", got, sent)
		}
		if got := series["last_delivery_timestamp_seconds nylas"]; got != 0 {
			t.Errorf("nylas's last delivery at %v, want 0", got)
		}
	})
}

// The promise of the metrics. Writers move deliveries of both providers through every ending, in parts, for
// as long as it takes to scrape in between many times; no scrape may see books that do not balance.
func TestLedgerBalancesUnderLoad(t *testing.T) {
	t.Parallel()
	providers := []string{"nylas", "slack"}
	l, reg := setup(t, providers...)
	const writers, scrapers, scrapes = 8, 2, 150

	var writing, scraping sync.WaitGroup
	var enough atomic.Bool
	for w := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for !enough.Load() {
				work(l, providers[random.IntN(2)], random)
			}
		})
	}
	for range scrapers {
		scraping.Go(func() {
			for range scrapes {
				series := scrape(t, reg)
				for _, p := range providers {
					if off := balance(series, p); off != 0 || series["deliveries_waiting "+p] < 0 {
						t.Errorf("%s is out by %v: %v", p, off, series)
						return
					}
				}
			}
		})
	}
	scraping.Wait()
	enough.Store(true)
	writing.Wait()

	series := scrape(t, reg)
	for _, p := range providers {
		if off := balance(series, p); off != 0 || series["deliveries_waiting "+p] != 0 {
			t.Errorf("%s is out by %v, and %v deliveries wait after all have ended", p, off, series["deliveries_waiting "+p])
		}
		if series["deliveries_received_total "+p] == 0 || series["deliveries_recovered_total "+p] == 0 {
			t.Errorf("%s: the load did not cover every way in: %v", p, series)
		}
	}
}

// work takes a request of a few deliveries in and to its endings, in one tally or two.
func work(l *Ledger, provider string, random *rand.Rand) {
	n := 1 + random.IntN(5)
	if random.IntN(4) == 0 {
		l.Recover(provider, n)
	} else {
		l.Receive(provider, n)
	}
	var endings []Ending
	for range n {
		switch k := random.IntN(2 + len(Reasons())); k {
		case 0:
			endings = append(endings, Ending{})
		case 1:
			endings = append(endings, Ending{Failed: true})
		default:
			endings = append(endings, Ending{Dropped: Reasons()[k-2]})
		}
		if random.IntN(3) == 0 {
			l.End(provider, endings...)
			endings = nil
		}
	}
	l.End(provider, endings...)
}

func TestLedgerShowsDoubleEnd(t *testing.T) {
	t.Parallel()
	l, reg := setup(t, "slack")
	l.Receive("slack", 1)
	l.End("slack", Ending{})
	l.Fail("slack", 1)
	if got := scrape(t, reg)["deliveries_waiting slack"]; got != -1 {
		t.Errorf("waiting = %v, want -1: what is counted twice must show", got)
	}
}

func TestLedgerPanicsOnUnknown(t *testing.T) {
	t.Parallel()
	l, _ := setup(t, "slack")
	for name, do := range map[string]func(){
		"a provider that the ledger was not given": func() { l.Receive("stripe", 1) },
		"a reason off the list":                    func() { l.End("slack", Ending{Dropped: "late"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			do()
		})
	}
}

func TestLedgerAllocatesNothing(t *testing.T) {
	// Not parallel: AllocsPerRun counts the process's allocations.
	l, _ := setup(t, "slack")
	if n := testing.AllocsPerRun(1000, func() {
		l.Receive("slack", 2)
		l.End("slack", Ending{}, Ending{Dropped: Duplicate})
	}); n != 0 {
		t.Errorf("a request's counting allocates %v times, want 0", n)
	}
}

func BenchmarkLedger(b *testing.B) {
	l := NewLedger([]string{"slack"})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Receive("slack", 1)
			l.End("slack", Ending{})
		}
	})
}
