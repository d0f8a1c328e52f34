package redrive

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

const (
	alreadyKept  = "it is in the inbox already"
	otherContent = "its key was claimed with other content meanwhile"
)

// Plan holds the drops to redrive and, after DryRun or Drive, their outcomes.
type Plan struct {
	Steps []*Step
	More  bool // the filter selects more drops than its limit
}

// Step is one drop of a plan.
type Step struct {
	Drop    drops.Kept    // without its request; only the id if the drop does not exist
	Refused bool          // it will not be redriven
	Outcome drops.Outcome // empty: refused, or not reached
	Detail  string        // explains the outcome, or why it is refused
	// Where the delivery belongs now. Zero when that is unknown, or when the drop is several deliveries.
	Job, Organization uuid.UUID
	Delivery          uuid.UUID // its row in the inbox; zero if there are none or several

	parts []part
}

// part is one delivery of a drop. A drop has one, unless its request could not be parsed when it came.
type part struct {
	item     providers.Item
	key      idempotency.Kind // the state of its key when it was read
	outcome  drops.Outcome
	detail   string
	delivery uuid.UUID
}

// request groups the drops of one request.
type request struct {
	*providers.Request
	steps []*Step
}

// Counts returns how many drops ended with each outcome; "refused" counts those that were not redriven. A drop that was
// not reached is not counted.
func (p *Plan) Counts() map[string]int {
	counts := make(map[string]int)
	for _, s := range p.Steps {
		switch {
		case s.Refused:
			counts["refused"]++
		case s.Outcome != "":
			counts[string(s.Outcome)]++
		}
	}
	return counts
}

// requests groups the drops that are not refused by request, and yields a few requests at a time. It frees their
// bodies afterwards: together they may not fit in memory.
func (p *Plan) requests() iter.Seq[[]*request] {
	return func(yield func([]*request) bool) {
		var all []*request
		byID := make(map[uuid.UUID]*request)
		for _, s := range p.Steps {
			if s.Refused {
				continue
			}
			r := byID[s.Drop.RequestID]
			if r == nil {
				r = &request{}
				byID[s.Drop.RequestID] = r
				all = append(all, r)
			}
			r.steps = append(r.steps, s)
		}
		for some := range slices.Chunk(all, together) {
			if !yield(some) {
				return
			}
			for _, r := range some {
				r.Request = nil
				for _, s := range r.steps {
					s.parts = nil
				}
			}
		}
	}
}

// stepsOf returns the drops that are not refused.
func stepsOf(some []*request) []*Step {
	var steps []*Step
	for _, r := range some {
		for _, s := range r.steps {
			if !s.Refused {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

func (s *Step) refuse(why string) { s.Refused, s.Detail = true, why }

// take finds the drop among the deliveries of its request, as they are parsed now.
func (s *Step) take(items []providers.Item) {
	// The drop of a request that could not be parsed stands for the whole request. One that the database refused was
	// parsed, and has a fingerprint.
	whole := s.Drop.Reason == drops.Malformed && s.Drop.RequestHash == ""
	for _, item := range items {
		if whole || item.Position == s.Drop.Position {
			s.parts = append(s.parts, part{item: item})
		}
	}
	switch len(s.parts) {
	case 0:
		s.refuse(fmt.Sprintf("its request is now read as %d deliveries, and this was number %d", len(items), s.Drop.Position+1))
	case 1:
		s.Job, s.Organization = s.parts[0].item.Job, s.parts[0].item.Organization
	}
}

// end records how the delivery was settled.
func (p *part) end(req *providers.Request, ending providers.Ending) {
	switch {
	case ending.Failed:
		p.outcome, p.detail = drops.Failed, "it could not be stored in time"
	case ending.Dropped == "":
		p.outcome, p.delivery = drops.Accepted, req.Mint(providers.DeliveryID, p.item.Position)
	case ending.Dropped == p.item.Reason:
		p.outcome, p.detail = drops.Outcome(ending.Dropped), p.item.Detail
	case ending.Dropped == drops.Duplicate:
		p.outcome, p.detail = drops.Outcome(ending.Dropped), alreadyKept
	case ending.Dropped == drops.HashMismatch:
		p.outcome, p.detail = drops.Outcome(ending.Dropped), otherContent
	default:
		p.outcome = drops.Outcome(ending.Dropped)
	}
}

// predict sets how the delivery would end.
func (p *part) predict() {
	switch {
	case p.outcome != "":
	case p.item.Reason != "":
		p.outcome, p.detail = drops.Outcome(p.item.Reason), p.item.Detail
	case p.key == idempotency.Completed, p.key == idempotency.Processing:
		p.outcome, p.detail = drops.Outcome(drops.Duplicate), alreadyKept
	case p.key == idempotency.Conflict:
		p.outcome, p.detail = drops.Outcome(drops.HashMismatch), otherContent
	default:
		p.outcome, p.detail = drops.Accepted, "job "+p.item.Job.String()+" of organization "+p.item.Organization.String()
	}
}

// conclude combines the outcomes of the drop's deliveries: failed if one failed, else accepted if one was, else the
// first one's.
func (s *Step) conclude() {
	rank := map[drops.Outcome]int{drops.Failed: 2, drops.Accepted: 1}
	counts, order := make(map[drops.Outcome]int), []drops.Outcome(nil)
	for i, p := range s.parts {
		if i == 0 || rank[p.outcome] > rank[s.Outcome] {
			s.Outcome, s.Detail, s.Delivery = p.outcome, p.detail, p.delivery
		}
		if counts[p.outcome]++; counts[p.outcome] == 1 {
			order = append(order, p.outcome)
		}
	}
	if len(s.parts) > 1 {
		var texts []string
		for _, o := range order {
			texts = append(texts, fmt.Sprintf("%d %s", counts[o], o))
		}
		s.Detail, s.Delivery = fmt.Sprintf("%d deliveries: %s", len(s.parts), strings.Join(texts, ", ")), uuid.Nil
	}
	if more := s.Drop.Count - 1; more > 0 {
		s.Detail = strings.TrimPrefix(fmt.Sprintf("%s; its row stands for %d more drops whose requests were not kept", s.Detail, more), "; ")
	}
}
