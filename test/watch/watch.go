// Package watch runs the gateway's binary under synthetic traffic of every outcome and a real Prometheus that
// scrapes it, to test what configs/prometheus and configs/grafana ask of the metrics.
package watch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Root is the module's folder, seen from a test of this package.
const Root = "../.."

// until asks again and again, several times a second, whether something has come true. The error says what
// was waited for.
func until(ctx context.Context, what string, comeTrue func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := comeTrue()
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
