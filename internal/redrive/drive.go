package redrive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

const (
	together = 16               // requests at once: their bodies are in memory meanwhile
	deadline = 30 * time.Second // of each; no vendor waits
)

// DryRun sets how each drop of the plan would end. It writes nothing to the database.
func (d *Driver) DryRun(ctx context.Context, plan *Plan) error {
	for some := range plan.requests() {
		if err := d.read(ctx, some); err != nil {
			return err
		}
		for _, s := range stepsOf(some) {
			for i := range s.parts {
				s.parts[i].predict()
			}
			s.conclude()
		}
	}
	return nil
}

// Drive redrives the drops of the plan. Before each, it records who redrives it and why; afterwards it records the
// outcome. When ctx ends or an error occurs, it finishes the requests that it has begun, and the plan shows what was
// done.
func (d *Driver) Drive(ctx context.Context, plan *Plan, by, why string) error {
	for some := range plan.requests() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.drive(context.WithoutCancel(ctx), some, by, why); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) drive(ctx context.Context, some []*request, by, why string) error {
	if err := d.read(ctx, some); err != nil {
		return err
	}
	steps := stepsOf(some)
	if len(steps) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(steps))
	for i, s := range steps {
		ids[i] = s.Drop.ID
	}
	at, err := d.drops.BeginRedrives(ctx, ids, by, why)
	if err != nil {
		return err
	}
	d.settle(some)
	ended := make([]drops.Redrive, len(steps))
	for i, s := range steps {
		s.conclude()
		ended[i] = drops.Redrive{Drop: s.Drop.ID, Outcome: s.Outcome, Detail: s.Detail, Delivery: s.Delivery}
	}
	if err := d.drops.EndRedrives(ctx, at, ended); err != nil {
		return err
	}
	for i, s := range steps { // another redrive may have been faster
		s.Outcome, s.Detail, s.Delivery = ended[i].Outcome, ended[i].Detail, ended[i].Delivery
	}
	return nil
}

// settle sends the deliveries without an outcome through the gate, and waits for their endings.
func (d *Driver) settle(some []*request) {
	var waits []func()
	for _, r := range some {
		var parts []*part
		var items []providers.Item
		for _, s := range r.steps {
			for i := range s.parts {
				if p := &s.parts[i]; p.outcome == "" {
					parts, items = append(parts, p), append(items, p.item)
				}
			}
		}
		if len(items) == 0 {
			continue
		}
		admission, err := d.gate.Recover(r.Request, items, time.Now().Add(deadline))
		if err != nil {
			for _, p := range parts {
				p.end(r.Request, providers.Ending{Failed: true})
			}
			continue
		}
		waits = append(waits, func() {
			<-admission.Ended // by the deadline
			for i, p := range parts {
				p.end(r.Request, admission.Endings[i])
				if err := admission.Trouble(); p.outcome == drops.Failed && err != nil {
					p.detail += ": " + err.Error()
				}
			}
		})
	}
	for _, wait := range waits {
		wait()
	}
}

// read loads the requests, and parses and resolves them with the present sources and jobs. It refuses drops whose
// request was not kept or no longer contains them.
func (d *Driver) read(ctx context.Context, some []*request) error {
	for _, r := range some {
		whole, err := d.drops.Find(ctx, r.steps[0].Drop.ID)
		if err != nil {
			return err
		}
		if whole.Body == nil {
			for _, s := range r.steps {
				s.refuse(drops.ErrNotKept.Error())
			}
			continue
		}
		if r.Request, err = requestOf(whole); err != nil {
			return err
		}
		items, err := d.gate.Read(ctx, r.Request)
		if err != nil {
			return err
		}
		for _, s := range r.steps {
			s.take(items)
		}
	}
	return d.lookUp(ctx, some)
}

// requestOf rebuilds the request that a drop came in.
func requestOf(k drops.Kept) (*providers.Request, error) {
	var pairs [][2]string
	if err := json.Unmarshal([]byte(k.Headers), &pairs); err != nil {
		return nil, fmt.Errorf("read the headers kept with drop %s: %w", k.ID, err)
	}
	req := &providers.Request{
		ID: k.RequestID, Seed: k.RequestSeed, Provider: k.Provider,
		Target:      providers.Target{Job: k.PathJob, Source: k.PathSource},
		VerifiedBy:  jobs.Verifier{Kind: jobs.VerifierKind(k.VerifiedBy), ID: k.VerifierID},
		ReceivedAt:  k.ReceivedAt,
		ContentType: k.ContentType, ContentEncoding: k.ContentEncoding, Body: k.Body,
	}
	for _, p := range pairs {
		req.Headers = append(req.Headers, providers.Header{Name: p[0], Value: p[1]})
	}
	return req, nil
}
