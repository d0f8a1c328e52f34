// Package replay signs captures anew, sends them to a gateway and checks the results: the answers and, if it has the
// database, the outcomes of the deliveries.
package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
)

// Case is one capture to send, or one step of a scenario. Its results are set when Run has returned.
type Case struct {
	Name    string
	Capture *capture.Capture

	// Statuses counts the answers by status. Failed counts the requests without an answer; Err is the first one's
	// error.
	Statuses map[int]int
	Failed   int
	Err      error
	// Outcomes counts how the deliveries ended; nil when that is not known.
	Outcomes capture.Outcomes
	// Problems lists what is not as expected.
	Problems []string

	times int
	want  capture.Result // of all requests together
	alter *capture.Alter
	step  *capture.Step // nil: a capture

	mu           sync.Mutex
	otherAnswers int // with the expected status and another body
	took         []time.Duration

	known  map[string]bool  // keys that the gateway had before the run
	before capture.Outcomes // what the gateway had stored of the body before the run
}

// Sent is how many requests were sent.
func (c *Case) Sent() int { return len(c.took) + c.Failed }

// Durations returns the median and the longest time to an answer.
func (c *Case) Durations() (median, longest time.Duration) {
	if len(c.took) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(c.took))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}

// Expected returns how the deliveries should end. One that the gateway had before the run should be a duplicate.
func (c *Case) Expected() capture.Outcomes {
	known := 0
	for _, k := range c.known {
		if k {
			known++
		}
	}
	known = min(known, c.want.Outcomes[capture.Accepted])
	return c.want.Outcomes.Plus(capture.Outcomes{capture.Accepted: 1}, -known).Plus(capture.Outcomes{string(drops.Duplicate): 1}, known)
}

// IsScenario reports whether a path names a scenario, and not captures.
func IsScenario(path string) bool {
	return strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, capture.File)
}

// Load reads the captures in and below the paths, each to be sent the given number of times, and the steps of
// scenarios. The error names everything that cannot be read or sent.
func Load(paths []string, times int) ([]*Case, error) {
	var cases []*Case
	var folders []string
	var errs []error
	for _, path := range paths {
		if !IsScenario(path) {
			folders = append(folders, strings.TrimSuffix(path, "/"+capture.File))
			continue
		}
		s, err := capture.LoadScenario(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range s.Steps {
			step := &s.Steps[i]
			cases = append(cases, &Case{
				Name: fmt.Sprintf("%s, step %d", s.Name, i+1), Capture: step.Capture, alter: step.Alter,
				want: step.Expect, times: step.Times, step: step,
			})
		}
	}
	if len(folders) > 0 {
		list, err := capture.LoadAll(folders...)
		if err != nil {
			errs = append(errs, err)
		}
		for _, c := range list {
			cases = append(cases, &Case{Name: c.Name, Capture: c, want: c.Expect.After(times), times: times})
		}
	}
	for _, c := range cases {
		switch c.Capture.Sign.Mode {
		case capture.Kept:
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, capture.ErrNotReplayed))
		case capture.Recorded:
			errs = append(errs, fmt.Errorf("%s: its recorded signature is valid only at its own time; go test replays it in process", c.Name))
		}
	}
	return cases, errors.Join(errs...)
}

// Captures returns the captures of the cases.
func Captures(cases []*Case) []*capture.Capture {
	list := make([]*capture.Capture, len(cases))
	for i, c := range cases {
		list[i] = c.Capture
	}
	return list
}

// Options says where and how cases are sent.
type Options struct {
	Base     string // the gateway's URL, without a path
	Places   capture.Places
	Vendors  map[string]providers.Provider // by name
	Plan     capture.Plan                  // of captures; scenarios have their own
	Hurry    bool                          // send the steps of a scenario without waiting for their offsets
	Timeout  time.Duration                 // of one answer
	Database *Database                     // nil: only the answers are checked
}

// Replay is one run over some cases.
type Replay struct {
	Options
	cases  []*Case
	client *http.Client
	sent   atomic.Int64
}

// New returns a Replay of the cases, which belong to it until Run returns.
func New(o Options, cases []*Case) *Replay {
	for _, c := range cases {
		c.Statuses = make(map[int]int)
	}
	return &Replay{Options: o, cases: cases, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: o.Plan.Concurrency, DisableCompression: true}, // no proxy
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Progress returns how many requests were sent so far, and how many there are. It is safe for concurrent use.
func (r *Replay) Progress() (sent, total int) {
	for _, c := range r.cases {
		total += c.times
	}
	return int(r.sent.Load()), total
}

// Run sends the cases and checks their results. When ctx ends it stops sending and checks what it has sent. An error
// says that the database did not answer.
func (r *Replay) Run(ctx context.Context) error {
	if r.Database != nil {
		if err := r.Database.look(ctx, r.cases); err != nil {
			if errors.Is(err, context.Canceled) {
				return context.Cause(ctx)
			}
			return fmt.Errorf("read the known deliveries: %w", err)
		}
	}
	r.send(ctx)
	for _, c := range r.cases {
		if r.Database != nil && c.outcomesKnown() {
			if err := r.Database.settle(context.WithoutCancel(ctx), c); err != nil {
				return fmt.Errorf("read the outcomes of %s: %w", c.Name, err)
			}
		}
		c.judge()
	}
	return nil
}

// judge fills in the problems of a case.
func (c *Case) judge() {
	problem := func(format string, args ...any) { c.Problems = append(c.Problems, fmt.Sprintf(format, args...)) }
	if c.Failed > 0 {
		problem("%d of %d had no answer: %s", c.Failed, c.times, withoutAddress(c.Err))
	}
	for status, n := range c.Statuses {
		if status != c.want.Status {
			problem("%d answered %d, want %d", n, status, c.want.Status)
		}
	}
	if c.otherAnswers > 0 {
		problem("%d answered with a body other than %.60q", c.otherAnswers, c.want.Answer)
	}
	if c.Sent() < c.times {
		problem("sent %d of %d times", c.Sent(), c.times)
	} else if want := c.Expected(); c.Outcomes != nil && c.Outcomes.String() != want.String() {
		problem("outcomes %s, want %s%s", c.Outcomes, want, c.hint())
	}
	slices.Sort(c.Problems)
}

// hint explains why a delivery's content may differ from the one that the gateway has.
func (c *Case) hint() string {
	if c.Outcomes[string(drops.HashMismatch)] > 0 && slices.Contains(c.Capture.Scrubbed, "token") {
		return " (its verification token was removed, and a form without it is different content; see --keep-token of gateway export)"
	}
	return ""
}

// withoutAddress returns the text of a transport's error without the address, which is the same for all.
func withoutAddress(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "\": "); i >= 0 {
		return text[i+3:]
	}
	return text
}
