package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// redriveTogether is how many requests are driven at once. Their bodies are in memory meanwhile.
const redriveTogether = 16

// redriveDeadline is how long each of them may take. No vendor waits.
const redriveDeadline = 30 * time.Second

// redriver sends kept requests through a gate and an inbox of its own, on the gateways' database.
type redriver struct {
	pool   *pgxpool.Pool
	store  *drops.Store
	keys   *idempotency.Service
	scopes map[string]idempotency.Scope // by provider
	gate   *providers.Gate
	box    *inbox.Inbox
}

// newRedriver returns a redriver that knows the sources and jobs as they are now. Its metrics, the recovered
// deliveries among them, are registered with reg. Its stop must be called.
func newRedriver(ctx context.Context, pool *pgxpool.Pool, cfg configs.Config, reg prometheus.Registerer, log *slog.Logger) (*redriver, error) {
	directory, err := directoryWithoutSecrets(ctx, pool)
	if err != nil {
		return nil, err
	}
	keys, err := idempotency.NewService(pool, idempotency.Options{})
	if err != nil {
		return nil, err
	}
	r := &redriver{pool: pool, store: drops.NewStore(pool), keys: keys, scopes: make(map[string]idempotency.Scope)}
	for _, name := range wiredNames() {
		if r.scopes[name], err = idempotency.NewScope("webhook." + name); err != nil {
			return nil, err
		}
	}
	ledger := drops.NewLedger(wiredNames())
	reg.MustRegister(ledger)
	r.box, err = inbox.New(inbox.Deps{
		Pool: pool, Keys: r.keys, Partitions: inbox.NewPartitions(pool), Registerer: reg, Providers: wiredNames(), Log: log,
	}, inbox.Options{
		QueueDeliveries: cfg.QueueDeliveries, QueueBytes: cfg.QueueBytes,
		BatchDeliveries: cfg.BatchDeliveries, BatchBytes: cfg.BatchBytes,
		Committers: 1, // in the order in which they came
	})
	if err != nil {
		return nil, err
	}
	r.gate = providers.NewGate(wired(), directory, r.box, ledger, cfg.MaxInflatedBytes)
	return r, nil
}

func (r *redriver) stop() { r.box.Stop(context.Background()) }

// directoryWithoutSecrets reads the sources and jobs once. Whose secret verified a request is kept with its
// drop, so that none has to be opened, and the key that opens them is not needed.
func directoryWithoutSecrets(ctx context.Context, pool *pgxpool.Pool) (*jobs.Directory, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never returns an error: it ends the process instead
	keys, err := jobs.NewKeys(base64.StdEncoding.EncodeToString(random))
	if err != nil {
		return nil, err
	}
	directory := jobs.NewDirectory(pool, keys, slog.New(slog.DiscardHandler), nil)
	if err := directory.Load(ctx); err != nil {
		return nil, fmt.Errorf("load sources and jobs: %w", err)
	}
	return directory, nil
}

// drive sends everything that can be driven again, and writes down by whom and why before and what came of
// it after. When ctx ends, what has begun is finished first.
func (r *redriver) drive(ctx context.Context, plan *redrivePlan, by, why string) error {
	for some := range plan.requests(redriveTogether) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.driveSome(context.WithoutCancel(ctx), some, by, why); err != nil {
			return err
		}
	}
	return nil
}

func (r *redriver) driveSome(ctx context.Context, some []*keptRequest, by, why string) error {
	if err := r.read(ctx, some); err != nil {
		return err
	}
	steps := stepsOf(some)
	ids := make([]uuid.UUID, len(steps))
	for i, s := range steps {
		ids[i] = s.kept.ID
	}
	if len(ids) == 0 {
		return nil
	}
	at, err := r.store.BeginRedrives(ctx, ids, by, why)
	if err != nil {
		return err
	}
	r.settle(some)
	ended := make([]drops.Redrive, len(steps))
	for i, s := range steps {
		s.conclude()
		ended[i] = drops.Redrive{Drop: s.kept.ID, Outcome: s.outcome, Detail: s.detail, Delivery: s.delivery}
	}
	if err := r.store.EndRedrives(ctx, at, ended); err != nil {
		return err
	}
	for i, s := range steps {
		s.outcome, s.detail, s.delivery = ended[i].Outcome, ended[i].Detail, ended[i].Delivery
	}
	return nil
}

// settle gives every delivery its ending that has none yet.
func (r *redriver) settle(some []*keptRequest) {
	type underWay struct {
		req       *providers.Request
		parts     []*redrivePart
		admission *providers.Admission
	}
	var all []underWay
	for _, k := range some {
		w := underWay{req: k.req}
		var items []providers.Item
		for _, s := range k.steps {
			for i := range s.parts {
				if s.parts[i].outcome == "" {
					w.parts = append(w.parts, &s.parts[i])
					items = append(items, s.parts[i].item)
				}
			}
		}
		if len(items) == 0 {
			continue
		}
		var err error
		if w.admission, err = r.gate.Recover(k.req, items, time.Now().Add(redriveDeadline)); err != nil {
			for _, p := range w.parts {
				p.end(k.req, providers.Ending{Failed: true})
			}
			continue
		}
		all = append(all, w)
	}
	for _, w := range all {
		<-w.admission.Ended // every delivery has its ending by its deadline
		for i, p := range w.parts {
			p.end(w.req, w.admission.Endings[i])
			if err := w.admission.Trouble(); p.outcome == drops.Failed && err != nil {
				p.detail += ": " + err.Error()
			}
		}
	}
}

// foresee tells what would become of everything that can be driven again, and changes nothing.
func (r *redriver) foresee(ctx context.Context, plan *redrivePlan) error {
	for some := range plan.requests(redriveTogether) {
		if err := r.read(ctx, some); err != nil {
			return err
		}
		for _, s := range stepsOf(some) {
			for i := range s.parts {
				s.parts[i].foresee()
			}
			s.conclude()
		}
	}
	return nil
}

func (p *redrivePart) foresee() {
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

// read loads the requests and takes them apart as things stand now. A step that comes to nothing is refused.
func (r *redriver) read(ctx context.Context, some []*keptRequest) error {
	for _, k := range some {
		whole, err := r.store.Find(ctx, k.steps[0].kept.ID)
		if err != nil {
			return err
		}
		if whole.Body == nil {
			k.refuse(drops.ErrNotKept.Error())
			continue
		}
		if k.req, err = requestOf(whole); err != nil {
			return err
		}
		items, err := r.gate.Read(ctx, k.req)
		if err != nil {
			return err
		}
		for _, s := range k.steps {
			s.take(k.req, items)
		}
	}
	return r.lookUp(ctx, some)
}

// requestOf builds the request again that a drop was kept of.
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
