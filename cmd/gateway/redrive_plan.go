package main

import (
	"errors"
	"fmt"
	"iter"
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

// redrivePlan is what is to be driven again, and becomes what was.
type redrivePlan struct {
	steps []*redriveStep
	more  bool // the filter chooses more than its limit
}

// redriveStep is one drop.
type redriveStep struct {
	kept    drops.Kept // without its request
	refusal string     // why it is not driven; empty: it is
	req     *providers.Request
	parts   []redrivePart

	outcome  drops.Outcome
	detail   string
	delivery uuid.UUID
}

// redrivePart is one delivery of a drop. A drop is one, but for a request that could not be read and now can.
type redrivePart struct {
	item     providers.Item
	key      idempotency.Kind // how its key stood when it was read
	outcome  drops.Outcome
	detail   string
	delivery uuid.UUID
}

// keptRequest is the drops of one request.
type keptRequest struct {
	req   *providers.Request
	steps []*redriveStep
}

func (p *redrivePlan) add(kept drops.Kept, refusal string) {
	p.steps = append(p.steps, &redriveStep{kept: kept, refusal: refusal})
}

// requests groups what is to be driven by its requests, up to so many at a time.
func (p *redrivePlan) requests(atMost int) iter.Seq[[]*keptRequest] {
	var all []*keptRequest
	byID := make(map[uuid.UUID]*keptRequest)
	for _, s := range p.steps {
		if s.refusal != "" {
			continue
		}
		k := byID[s.kept.RequestID]
		if k == nil {
			k = &keptRequest{}
			byID[s.kept.RequestID] = k
			all = append(all, k)
		}
		k.steps = append(k.steps, s)
	}
	return func(yield func([]*keptRequest) bool) {
		for len(all) > 0 {
			n := min(atMost, len(all))
			if !yield(all[:n]) {
				return
			}
			clear(all[:n]) // with their bodies
			all = all[n:]
		}
	}
}

// stepsOf lists the drops that are driven.
func stepsOf(some []*keptRequest) []*redriveStep {
	var steps []*redriveStep
	for _, k := range some {
		for _, s := range k.steps {
			if s.refusal == "" {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

func (k *keptRequest) refuse(why string) {
	for _, s := range k.steps {
		s.refusal = why
	}
}

// take finds what the drop is among the deliveries that its request is read as now.
func (s *redriveStep) take(req *providers.Request, items []providers.Item) {
	s.req = req
	// The drop of a request that could not be read stands for all of it. One that the database refused
	// had been read, and has a fingerprint.
	if s.kept.Reason == drops.Malformed && s.kept.RequestHash == "" {
		for _, item := range items {
			s.parts = append(s.parts, redrivePart{item: item})
		}
		return
	}
	for _, item := range items {
		if item.Position == s.kept.Position {
			s.parts = append(s.parts, redrivePart{item: item})
			return
		}
	}
	s.refusal = fmt.Sprintf("its request is now read as %d deliveries, and this was number %d", len(items), s.kept.Position+1)
}

// end takes what the settler says of the delivery.
func (p *redrivePart) end(req *providers.Request, ending providers.Ending) {
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

// conclude makes one outcome of the drop's deliveries: failed if any failed, else accepted if any was, else
// what became of the first.
func (s *redriveStep) conclude() {
	rank := func(o drops.Outcome) int {
		switch o {
		case drops.Failed:
			return 2
		case drops.Accepted:
			return 1
		default:
			return 0
		}
	}
	counts, order := make(map[drops.Outcome]int), []string(nil)
	for i := range s.parts {
		p := &s.parts[i]
		if i == 0 || rank(p.outcome) > rank(s.outcome) {
			s.outcome, s.detail, s.delivery = p.outcome, p.detail, p.delivery
		}
		if counts[p.outcome]++; counts[p.outcome] == 1 {
			order = append(order, string(p.outcome))
		}
	}
	if len(s.parts) > 1 {
		for i, o := range order {
			order[i] = fmt.Sprintf("%d %s", counts[drops.Outcome(o)], o)
		}
		s.detail, s.delivery = fmt.Sprintf("%d deliveries: %s", len(s.parts), strings.Join(order, ", ")), uuid.Nil
	}
	if more := s.kept.Count - 1; more > 0 {
		s.detail = strings.TrimPrefix(fmt.Sprintf("%s; of %d more drops that it stands for nothing was kept", s.detail, more), "; ")
	}
}

// failure is the error that a command ends with which did what it could.
func (p *redrivePlan) failure(named bool) error {
	var failed, refused int
	for _, s := range p.steps {
		if s.refusal != "" {
			refused++
		} else if s.outcome == drops.Failed {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d drops could not be stored in time; give the same command again", failed)
	case named && refused > 0:
		return errors.New("not every drop that was named could be driven again")
	}
	return nil
}
