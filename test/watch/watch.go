// Package watch runs the gateway's binary under synthetic traffic with every outcome, and a real Prometheus that
// scrapes it, to test the expressions of configs/prometheus and configs/grafana.
package watch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Root is the module's folder, seen from a test of this package.
const Root = "../.."

// until polls a condition several times a second until it is true. The error says what it waited for.
func until(ctx context.Context, what string, met func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := met()
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until %s: %w", what, context.Cause(ctx)), last)
		}
	}
}
