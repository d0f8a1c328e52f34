package idempotency

import (
	"errors"
	"fmt"
	"time"
)

// ErrSchedule: an orchestrator would make its last attempt while a dead worker's lease still lives.
var ErrSchedule = errors.New("idempotency: the lease outlives the retries")

// RetrySchedule is the shortest time between each attempt of an orchestrator and the next. An attempt that
// meets a live lease raises; a worker that died holds one until it passes. If it outlived the last attempt,
// every attempt would meet it and the run would fail, though nothing was wrong but one dead worker.
type RetrySchedule []time.Duration

// Outlasts reports, with an error that wraps ErrSchedule, a schedule that ends before the lease does.
func (r RetrySchedule) Outlasts(lease time.Duration) error {
	var sum time.Duration
	for _, wait := range r {
		sum += wait
	}
	if sum <= lease {
		return fmt.Errorf("%w: the last of %d attempts may come %s after the first, the lease is %s; retry for longer or lease for less",
			ErrSchedule, len(r)+1, sum, lease)
	}
	return nil
}
