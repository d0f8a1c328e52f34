package capture

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Plan says how captures are sent.
type Plan struct {
	Times       int     // of each capture, one after the other unless shuffled
	Concurrency int     // senders at once
	Rate        float64 // requests begun a second by all senders together; 0: as fast as answers come
	Shuffle     bool
	Seed        uint64 // of the shuffle
}

// Order returns the requests of n captures in order, as the captures' numbers.
func (p Plan) Order(n int) []int {
	order := make([]int, 0, n*p.Times)
	for i := range n {
		for range p.Times {
			order = append(order, i)
		}
	}
	if p.Shuffle {
		rnd := rand.New(rand.NewPCG(p.Seed, 0))
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}

// Run calls send once for each request of n captures, from at most Concurrency goroutines, in the order of Order, and
// returns when all have ended. When ctx ends it begins no more.
func (p Plan) Run(ctx context.Context, n int, send func(capture int)) {
	work := make(chan int)
	var senders sync.WaitGroup
	for range max(p.Concurrency, 1) {
		senders.Go(func() {
			for i := range work {
				send(i)
			}
		})
	}
	began := time.Now()
	for sent, i := range p.Order(n) {
		if !p.wait(ctx, began, sent) {
			break
		}
		work <- i
	}
	close(work)
	senders.Wait()
}

// wait waits until a request is due. It returns false if ctx has ended.
func (p Plan) wait(ctx context.Context, began time.Time, sent int) bool {
	if p.Rate <= 0 {
		return ctx.Err() == nil
	}
	turn := time.NewTimer(time.Until(began.Add(time.Duration(float64(sent) / p.Rate * float64(time.Second)))))
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-ctx.Done():
		return false
	}
}
