package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/test/binary"
	"webhook-gateway/test/watch"
)

func TestMain(m *testing.M) { binary.Main(m) }

// Honest calls are answered 200 during each attack, and the process stays within its memory. Only make hostile
// measures how long they take: here the machine may be busy.
func TestHonestCallsSurviveAttacks(t *testing.T) {
	t.Parallel()
	path, err := binary.Path()
	if err != nil {
		t.Fatal(err)
	}
	// A slow machine must not look like a refusal.
	const slowMachine = "GATEWAY_SETTLE_TIMEOUT=20s"
	// Small limits, which the attacks fill quickly, and attacks in proportion.
	tight := []string{slowMachine, "GATEWAY_MAX_CONNECTIONS=400", "GATEWAY_BODY_BUDGET_BYTES=16MiB"}
	for name, tt := range map[string]struct {
		settings []string
		scale    scale
		lead     time.Duration
		attacks  []string
	}{
		"small limits": {tight, scale{connections: 600, open: 600, again: 50, stallRate: 8 << 20}, 2 * time.Second, []string{"stall"}},
		"defaults":     {[]string{slowMachine}, full, 500 * time.Millisecond, []string{"JSON values", "deliveries", "tenant's bodies"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
			g, err := watch.StartGateway(t.Context(), path, server.URL(pgtest.Database), t.TempDir(), tt.settings...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := g.Stop(); err != nil {
					t.Error(err)
				}
			})
			to, err := register(context.Background(), g)
			if err != nil {
				t.Fatal(err)
			}
			attacked := 0
			for _, a := range attacks(tt.scale) {
				if !contains(a.name, tt.attacks) {
					continue
				}
				attacked++
				a.lead = tt.lead
				r, err := a.beside(t.Context(), to, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(r)
				if len(r.honest.small.took) == 0 || r.honest.small.failed()+r.honest.large.failed() > 0 {
					t.Errorf("%s: honest calls were not all answered 200: %v and %v", a.name, r.honest.small.other, r.honest.large.other)
				}
			}
			const most = 512
			if mib := to.resident(); attacked == 0 || mib > most {
				t.Errorf("after %d attacks: %d MiB, want %d at most", attacked, mib, most)
			}
		})
	}
}

func contains(name string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
