package main

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

// A PostgreSQL that stands still answers neither a COMMIT nor a goodbye. The gateway ends within its settings all the
// same, and says what it could not store.
func TestShutdownFrozenPostgreSQL(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	nylasTown(p.running)
	p.stop()
	const within = 3 * time.Second // less than what one transaction may take, and pgx waits for a goodbye
	p.env = append(p.env, "GATEWAY_SETTLE_TIMEOUT=1s", "GATEWAY_SHUTDOWN_TIMEOUT="+within.String())
	p.start().Discard()
	thaw := p.server.Freeze()
	t.Cleanup(thaw)

	statuses := make([]int, 20)
	atOnce(len(statuses), func(i int) {
		statuses[i] = p.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", string(rune('a'+i)), 1)).status
	})
	for i, status := range statuses {
		if status != http.StatusServiceUnavailable {
			t.Errorf("delivery %d is answered %d, want 503", i, status)
		}
	}
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit: %v, want status 0", err)
	}
	if took := time.Since(began); took > within+2*time.Second {
		t.Errorf("it took %s to end, with %s allowed", took, within)
	}
}
