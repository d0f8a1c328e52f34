package replay

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
)

// send sends captures by the plan, and then steps at their offsets.
func (r *Replay) send(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	var plain, steps []*Case
	for _, c := range r.cases {
		if c.step == nil {
			plain = append(plain, c)
		} else {
			steps = append(steps, c)
		}
	}
	r.Plan.Run(ctx, len(plain), func(i int) { r.one(ctx, plain[i]) })
	r.play(ctx, steps)
}

// play sends the steps of scenarios. It sends steps with the same offset at once, but the steps of one sender in
// turn.
func (r *Replay) play(ctx context.Context, steps []*Case) {
	began := time.Now()
	slices.SortStableFunc(steps, func(a, b *Case) int { return int(a.step.Offset - b.step.Offset) })
	for len(steps) > 0 && ctx.Err() == nil {
		n := slices.IndexFunc(steps, func(c *Case) bool { return c.step.Offset != steps[0].step.Offset })
		if n < 0 {
			n = len(steps)
		}
		if !r.Hurry {
			select {
			case <-time.After(time.Until(began.Add(steps[0].step.Offset))):
			case <-ctx.Done():
			}
		}
		senders := make(map[string][]*Case)
		for _, c := range steps[:n] {
			senders[c.step.Sender] = append(senders[c.step.Sender], c)
		}
		var all sync.WaitGroup
		for _, list := range senders {
			all.Go(func() {
				for _, c := range list {
					capture.Plan{Times: c.times, Concurrency: c.times}.Run(ctx, 1, func(int) { r.one(ctx, c) })
				}
			})
		}
		all.Wait()
		steps = steps[n:]
	}
}

// one sends a case once.
func (r *Replay) one(ctx context.Context, c *Case) {
	defer r.sent.Add(1)
	status, body, took, err := r.post(ctx, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.Failed++
		if c.Err == nil {
			c.Err = err
		}
		return
	}
	c.Statuses[status]++
	c.took = append(c.took, took)
	if status == c.want.Status && body != c.want.Answer {
		c.otherAnswers++
	}
}

func (r *Replay) post(ctx context.Context, c *Case) (status int, body string, took time.Duration, err error) {
	place, err := r.Places.Of(c.Capture)
	if err != nil {
		return 0, "", 0, err
	}
	var sign capture.Signer
	if s, ok := r.Vendors[c.Capture.Provider].(providers.Signer); ok {
		sign = s.Sign
	}
	req, err := c.Capture.Request(ctx, r.Base, place, sign, c.alter)
	if err != nil {
		return 0, "", 0, err
	}
	began := time.Now()
	res, err := r.client.Do(req)
	if err != nil {
		return 0, "", 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return res.StatusCode, string(text), time.Since(began), err
}
