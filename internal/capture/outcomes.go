package capture

import (
	"fmt"
	"slices"
	"strings"

	"webhook-gateway/drops"
)

// Outcomes counts the outcomes of deliveries, and of requests without deliveries: handshakes and rejections.
type Outcomes map[string]int

// The outcomes besides the reasons to drop a delivery and those to reject a request.
const (
	Accepted  = "accepted"
	Handshake = "handshake"
)

// Rejections lists the reasons to refuse a request, as the metric of rejected requests names them.
func Rejections() []string {
	return []string{"unsigned", "mismatch", "stale", "too_large", "slow", "no_secret", "unconfirmed", "overloaded"}
}

// outcomeNames lists everything that Outcomes may count.
func outcomeNames() []string {
	names := []string{Accepted, Handshake}
	for _, reason := range drops.Reasons() {
		names = append(names, string(reason))
	}
	return append(names, Rejections()...)
}

// Total returns the sum of all counts.
func (o Outcomes) Total() int {
	n := 0
	for _, count := range o {
		n += count
	}
	return n
}

// Plus adds n times the outcomes of other.
func (o Outcomes) Plus(other Outcomes, n int) Outcomes {
	sum := make(Outcomes, len(o)+len(other))
	for name, count := range o {
		sum[name] += count
	}
	for name, count := range other {
		sum[name] += n * count
	}
	for name, count := range sum {
		if count == 0 {
			delete(sum, name)
		}
	}
	return sum
}

// String lists the counts, in the documented order.
func (o Outcomes) String() string {
	var texts []string
	for _, name := range outcomeNames() {
		if o[name] != 0 {
			texts = append(texts, fmt.Sprintf("%s %d", name, o[name]))
		}
	}
	if texts == nil {
		return "none"
	}
	return strings.Join(texts, ", ")
}

// check returns an error for each outcome that does not exist.
func (o Outcomes) check(of string) []error {
	var errs []error
	for name, count := range o {
		if !slices.Contains(outcomeNames(), name) {
			errs = append(errs, fmt.Errorf("%s: there is no outcome %.40q; it is one of %s", of, name, strings.Join(outcomeNames(), ", ")))
		}
		if count < 1 {
			errs = append(errs, fmt.Errorf("%s: %s is counted %d times", of, name, count))
		}
	}
	if len(o) == 0 {
		errs = append(errs, fmt.Errorf("%s: no outcome is expected", of))
	}
	return errs
}

// After returns what to expect of sending the capture n times to a gateway that has not received it: Once, then Again
// for the rest, or Once each time if Again is nil.
func (e Expect) After(n int) Result {
	again := e.Once
	if e.Again != nil {
		again = *e.Again
	}
	sum := e.Once
	sum.Outcomes = e.Once.Outcomes.Plus(again.Outcomes, n-1)
	sum.Rows += (n - 1) * again.Rows
	sum.Drops += (n - 1) * again.Drops
	return sum
}
