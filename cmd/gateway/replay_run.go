package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/internal/capture"
)

// act is a capture to be sent some times, or a step of a scenario, and what came of it.
type act struct {
	name    string
	capture *capture.Capture
	alter   *capture.Alter
	times   int
	want    capture.Result // of all the times together
	step    *capture.Step  // nil: a capture

	mu       sync.Mutex
	statuses map[int]int
	answers  int // that were not the one expected
	errors   int // sendings without an answer
	cause    error
	took     []time.Duration

	known    map[string]bool  // keys that the gateway had before
	before   capture.Outcomes // what was written of its body before
	got      capture.Outcomes // nil: not to be known
	problems []string
}

// replaying is one run of the command.
type replaying struct {
	base   string
	flags  *replayFlags
	acts   []*act
	from   *ledger
	client *http.Client
	sent   atomic.Int64
	total  int
	seed   uint64
}

func newReplay(base string, f *replayFlags, acts []*act, from *ledger) *replaying {
	r := &replaying{base: base, flags: f, acts: acts, from: from, client: f.sender(), seed: f.seed}
	if f.shuffle && r.seed == 0 {
		r.seed = rand.Uint64N(1_000_000) + 1
	}
	for _, a := range acts {
		a.statuses = make(map[int]int)
		r.total += a.times
	}
	return r
}

// send sends all of it: captures by the plan, steps at their offsets.
func (r *replaying) send(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	var plain, steps []*act
	for _, a := range r.acts {
		if a.step == nil {
			plain = append(plain, a)
		} else {
			steps = append(steps, a)
		}
	}
	plan := capture.Plan{Times: r.flags.times, Concurrency: r.flags.concurrency, Rate: r.flags.rate, Shuffle: r.flags.shuffle, Seed: r.seed}
	plan.Run(ctx, len(plain), func(i int) { r.one(ctx, plain[i]) })
	r.play(ctx, steps)
}

// play sends the steps of scenarios: those with the same offset at once, each sender's one after the other.
func (r *replaying) play(ctx context.Context, steps []*act) {
	began := time.Now()
	slices.SortStableFunc(steps, func(a, b *act) int { return int(a.step.Offset - b.step.Offset) })
	for len(steps) > 0 && ctx.Err() == nil {
		n := slices.IndexFunc(steps, func(a *act) bool { return a.step.Offset != steps[0].step.Offset })
		if n < 0 {
			n = len(steps)
		}
		if !r.flags.hurry {
			wait := time.NewTimer(time.Until(began.Add(steps[0].step.Offset)))
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
		senders := make(map[string][]*act)
		for _, a := range steps[:n] {
			senders[a.step.Sender] = append(senders[a.step.Sender], a)
		}
		var all sync.WaitGroup
		for _, list := range senders {
			all.Go(func() {
				for _, a := range list {
					capture.Plan{Times: a.times, Concurrency: a.times}.Run(ctx, 1, func(int) { r.one(ctx, a) })
				}
			})
		}
		all.Wait()
		steps = steps[n:]
	}
}

// one sends a capture once.
func (r *replaying) one(ctx context.Context, a *act) {
	defer r.sent.Add(1)
	place, err := r.from.places.Of(a.capture)
	if err != nil {
		a.failed(err)
		return
	}
	req, err := a.capture.Request(ctx, r.base, place, r.from.signers[a.capture.Provider], a.alter)
	if err != nil {
		a.failed(err)
		return
	}
	began := time.Now()
	res, err := r.client.Do(req)
	if err != nil {
		a.failed(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		a.failed(err)
		return
	}
	took := time.Since(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[res.StatusCode]++
	a.took = append(a.took, took)
	if res.StatusCode == a.want.Status && string(body) != a.want.Answer {
		a.answers++
	}
}

func (a *act) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errors++
	if a.cause == nil {
		a.cause = err
	}
}

// held says whether everything came as expected; what did not is in problems.
func (a *act) held() bool { return len(a.problems) == 0 }

// judge fills in what is wrong with each act.
func (r *replaying) judge(ctx context.Context) error {
	if err := r.from.settle(ctx, r.acts); err != nil {
		return err
	}
	for _, a := range r.acts {
		if a.errors > 0 {
			a.problems = append(a.problems, fmt.Sprintf("%d of %d had no answer: %s", a.errors, a.times, plainly(a.cause)))
		}
		for status, n := range a.statuses {
			if status != a.want.Status {
				a.problems = append(a.problems, fmt.Sprintf("%d answered %d, want %d", n, status, a.want.Status))
			}
		}
		if a.answers > 0 {
			a.problems = append(a.problems, fmt.Sprintf("%d answered with another body than %.60q", a.answers, a.want.Answer))
		}
		if sent := a.errors + len(a.took); sent < a.times {
			a.problems = append(a.problems, fmt.Sprintf("sent %d of %d times", sent, a.times))
		} else if want := a.expected(); a.got != nil && a.got.String() != want.String() {
			a.problems = append(a.problems, fmt.Sprintf("became %s, want %s%s", a.got, want, a.hint()))
		}
		slices.Sort(a.problems)
	}
	return nil
}

// hint says why a content may be another than the one that the gateway has.
func (a *act) hint() string {
	if a.got[string(drops.HashMismatch)] > 0 && slices.Contains(a.capture.Scrubbed, "token") {
		return " (the verification token was taken out of it, and a form without it is another content; see --keep-token of gateway export)"
	}
	return ""
}

// plainly is a transport's error without the address, which is told once.
func plainly(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "\": "); i >= 0 {
		return text[i+3:]
	}
	return text
}

// verdict is an error unless everything came as expected.
func (r *replaying) verdict() error {
	failed, unanswered, answered := 0, 0, 0
	for _, a := range r.acts {
		if !a.held() {
			failed++
		}
		unanswered += a.errors
		answered += len(a.took)
	}
	switch {
	case failed == 0:
		return nil
	case unanswered > 0 && answered == 0:
		return fmt.Errorf("%w at %s", errNoAnswer, r.base)
	default:
		return mismatchError{fmt.Errorf("%d of %d did not come as expected", failed, len(r.acts))}
	}
}

// look asks what the gateway knows before anything is sent.
func (r *replaying) look(ctx context.Context) error {
	err := r.from.look(ctx, r.acts)
	if errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}
