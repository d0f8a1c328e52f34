// Package soak uses the plane in every way at once for a while, from two processes whose connections are cut and
// whose callers give up, and then counts the effects. make soak runs it.
package soak

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"webhook-gateway/internal/pgtest"
)

var duration = flag.Duration("soak", time.Minute, "how long the plane is used")

func TestMain(m *testing.M) {
	if url := os.Getenv(workerURL); url != "" {
		os.Exit(work(url))
	}
	goleak.VerifyTestMain(pgtest.Stopping(m))
}
