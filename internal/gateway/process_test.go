package gateway

import (
	"runtime/debug"
	"testing"

	"webhook-gateway/configs"
)

func TestTuneGC(t *testing.T) {
	percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(7<<40)
	t.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
	cfg := configs.Config{BodyBudgetBytes: 256 << 20, QueueBytes: 128 << 20}

	t.Setenv("GOGC", "100")
	t.Setenv("GOMEMLIMIT", "1GiB")
	tuneGC(cfg)
	if p, l := debug.SetGCPercent(77), debug.SetMemoryLimit(-1); p != 77 || l != 7<<40 {
		t.Errorf("set to %d %% and %d bytes although the environment says", p, l)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	tuneGC(cfg)
	if p, l := debug.SetGCPercent(77), debug.SetMemoryLimit(-1); p != 400 || l != 448<<20 {
		t.Errorf("got %d %% and %d bytes", p, l)
	}
}
