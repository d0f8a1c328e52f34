package idempotency

import (
	"errors"
	"fmt"
	"time"
)

// ErrSchedule: the orchestrator's last attempt comes before a dead worker's lease has passed.
var ErrSchedule = errors.New("idempotency: the lease outlives the retries")

// RetrySchedule lists the shortest pauses between the attempts of an orchestrator. An attempt that meets a live lease
// fails, and a dead worker holds its lease until it passes. If the lease outlived the last attempt, the whole run would
// fail because of one dead worker.
type RetrySchedule []time.Duration

// Outlasts returns an error that wraps ErrSchedule if the schedule ends before the lease.
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
