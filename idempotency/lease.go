package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errLeaseEnds = errors.New("idempotency: the claim's lease ends")

// Left is how much of the lease is left, by this process's clock.
func (c *Claim) Left() time.Duration { return time.Until(c.Deadline) }

// Within is the context to make the effect under: it ends a tenth of what is left of the lease, at most 5 s,
// before the lease does. An Extend moves its end.
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

// leaseContext ends with a lease that can be extended.
type leaseContext struct {
	context.Context
	timer *time.Timer

	mu   sync.Mutex
	ends time.Time
}

// arm ends the context before the lease ends.
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
