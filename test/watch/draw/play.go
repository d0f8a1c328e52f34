package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/test/watch"
)

// play is a bad day in minutes: a registration that is missing, a URL in the wrong place, a stranger, a secret
// that was changed, and PostgreSQL away for seconds. Its moments are shares of the whole time.
type play struct {
	traffic *watch.Traffic
	server  watch.PostgreSQL
	began   time.Time
	whole   time.Duration

	down sync.RWMutex // held to send; taken whole while PostgreSQL is away
	all  sync.WaitGroup
	errs chan error
}

func newPlay(t *watch.Traffic, server watch.PostgreSQL, whole time.Duration) *play {
	return &play{traffic: t, server: server, began: time.Now(), whole: whole, errs: make(chan error, 8)}
}

// run plays it to its end.
func (p *play) run(ctx context.Context) error {
	p.every(ctx, 250*time.Millisecond, p.deliveries)
	p.every(ctx, 200*time.Millisecond, func(ctx context.Context, now float64) error {
		return p.traffic.AcceptSlack(ctx, int(6+3*math.Cos(14*now)))
	})
	p.every(ctx, 400*time.Millisecond, p.mistakes)
	p.every(ctx, 500*time.Millisecond, p.strangers)
	p.all.Go(func() {
		if err := p.mishaps(ctx); err != nil {
			p.errs <- err
		}
	})
	p.all.Wait()
	close(p.errs)
	err := ctx.Err()
	for one := range p.errs {
		err = errors.Join(err, one)
	}
	return err
}

// every does something again and again, unless PostgreSQL is away, until the whole time is over.
func (p *play) every(ctx context.Context, d time.Duration, do func(context.Context, float64) error) {
	p.all.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for now := 0.0; now < 1 && ctx.Err() == nil; now = float64(time.Since(p.began)) / float64(p.whole) {
			<-tick.C
			p.down.RLock()
			err := do(ctx, now)
			p.down.RUnlock()
			if err != nil {
				p.errs <- err
				return
			}
		}
	})
}

func between(now, from, to float64) bool { return now >= from && now < to }

func (p *play) deliveries(ctx context.Context, now float64) error {
	ids, err := p.traffic.Accept(ctx, int(14+8*math.Sin(20*now)))
	if err != nil {
		return err
	}
	repeats := 1
	if between(now, 0.75, 0.85) {
		repeats = 8
	}
	return p.traffic.Drop(ctx, drops.Duplicate, min(repeats, len(ids)), ids)
}

func (p *play) mistakes(ctx context.Context, now float64) error {
	switch {
	case between(now, 0.15, 0.3):
		return p.traffic.Drop(ctx, drops.UnknownJob, 4, nil)
	case between(now, 0.35, 0.45):
		return p.traffic.Drop(ctx, drops.JobMismatch, 2, nil)
	case between(now, 0.5, 0.53):
		return p.traffic.Drop(ctx, drops.Malformed, 1, nil)
	}
	return nil
}

func (p *play) strangers(ctx context.Context, now float64) error {
	if between(now, 0.55, 0.7) {
		return errors.Join(p.traffic.Reject(ctx, "unsigned", 6), p.traffic.RejectSlack(ctx, "mismatch", 2))
	}
	return errors.Join(p.traffic.Reject(ctx, "unsigned", 1), p.traffic.AcceptPrevious(ctx, 1))
}

// mishaps sends two deliveries whose key is taken, and takes PostgreSQL away for a moment.
func (p *play) mishaps(ctx context.Context) error {
	wait := func(share float64) {
		select {
		case <-time.After(time.Until(p.began.Add(time.Duration(share * float64(p.whole))))):
		case <-ctx.Done():
		}
	}
	wait(0.4)
	ids, err := p.traffic.Accept(ctx, 2)
	if err == nil {
		err = p.traffic.Drop(ctx, drops.HashMismatch, 2, ids)
	}
	if err != nil {
		return err
	}
	wait(0.88)
	p.down.Lock()
	defer p.down.Unlock()
	return p.traffic.Outage(ctx, p.server, 80)
}
