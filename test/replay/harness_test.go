package replay

import (
	"path/filepath"
	"testing"
)

// TestBinary runs everything against the built gateway on a PostgreSQL with fsync. One gateway serves all ways of
// sending; each has its own town, which has received nothing before.
func TestBinary(t *testing.T) {
	t.Parallel()
	// A busy machine may not finish inflating to the limit twenty times at once.
	g := newGateway(t, "GATEWAY_MAX_INFLATED_BYTES=1MiB")
	list := committed(t)

	once, _ := g.target(t, list, "once")
	t.Run("once and again", func(t *testing.T) { Run(t, list, once) })

	twenty, town := g.target(t, list, "twenty")
	t.Run("twenty at once", func(t *testing.T) { Twenty(t, list, twenty) })
	keys := g.count(t, `SELECT count(*) FROM agent.idempotency_keys WHERE organization_id = $1 AND status = 'completed'`, town.Organization)
	if rows := len(town.stored); keys != rows || rows == 0 {
		t.Errorf("%d completed keys for %d rows", keys, rows)
	}

	shuffled, _ := g.target(t, list, "shuffled")
	t.Run("shuffled, from two senders", func(t *testing.T) { Shuffled(t, list, shuffled, 4, 20261103) })

	// A mismatch waits for a read of the directory, and there are at most twenty reads a second.
	var some []*Capture
	for i := 0; i < len(list); i += 8 {
		some = append(some, list[i])
	}
	forged, _ := g.target(t, list, "forged")
	t.Run("refused", func(t *testing.T) { Negatives(t, some, forged) })

	files, err := filepath.Glob("testdata/scenarios/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, s := range LoadScenarios(t, files...) {
		t.Run(s.Name, func(t *testing.T) {
			target, _ := g.target(t, s.Captures(), s.Name)
			Play(t, s, target)
		})
	}
}
