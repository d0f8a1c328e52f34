package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errLeaseEnds = errors.New("idempotency: the claim's lease is about to end")

// Left returns the rest of the lease, by this process's clock.
func (c *Claim) Left() time.Duration { return time.Until(c.Deadline) }

// Within returns the context for the effect. It ends before the lease, by a tenth of the rest of the lease, at most 5
// s. Extend moves its end.
func (c *Claim) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancelCause(ctx)
	l := &leaseContext{Context: within}
	l.timer = time.AfterFunc(time.Hour, func() { cancel(errLeaseEnds) })
	l.arm(c.Deadline)
	c.within = l
	return l, func() {
		l.timer.Stop()
		cancel(context.Canceled)
	}
}

// leaseContext ends before a lease that can be extended.
type leaseContext struct {
	context.Context
	timer *time.Timer

	mu   sync.Mutex
	ends time.Time
}

// arm sets the context's end for a lease that ends at the deadline.
func (l *leaseContext) arm(deadline time.Time) {
	margin := max(min(time.Until(deadline)/10, 5*time.Second), 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = deadline.Add(-margin)
	l.timer.Reset(time.Until(l.ends))
}

// Deadline implements context.Context.
func (l *leaseContext) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.Context.Deadline(); ok && d.Before(l.ends) {
		return d, true
	}
	return l.ends, true
}

// Err implements context.Context.
func (l *leaseContext) Err() error {
	err := l.Context.Err()
	if err != nil && errors.Is(context.Cause(l.Context), errLeaseEnds) {
		return context.DeadlineExceeded
	}
	return err
}
