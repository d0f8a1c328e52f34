package idempotency_test

import (
	"flag"
	"os"
	"testing"

	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashPoint) != "" {
		crashWorker()
	}
	// The model runs against a real server: fewer runs, unless the command line says otherwise.
	_ = flag.Set("rapid.checks", "40")
	_ = flag.Set("rapid.nofailfile", "true")
	pgtest.Main(m)
}
