package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// ledger is where a replay has its places from, and where it learns what became of what it sent.
type ledger struct {
	places  capture.Places
	signers map[string]capture.Signer
	found   map[string]registry.Found
	pool    *pgxpool.Pool
	db      *registry.Registry // nil: no database can be asked
	keys    *idempotency.Service
	vendors map[string]providers.Provider
	began   time.Time
}

// ledger finds whom the acts need. Nothing is sent when one of them is missing.
func (f *replayFlags) ledger(cmd *cobra.Command, acts []*act) (*ledger, error) {
	list := make([]*capture.Capture, len(acts))
	for i, a := range acts {
		list[i] = a.capture
	}
	l := &ledger{signers: signers(), vendors: vendorsByName()}
	for _, a := range acts {
		if l.signers[a.capture.Provider] == nil || l.vendors[a.capture.Provider] == nil {
			return nil, usagef("capture %s is of %q, which this build has not", a.name, a.capture.Provider)
		}
	}
	if f.secrets != "" {
		var err error
		l.places, err = findInFile(f.secrets, list)
		return l, err
	}
	var err error
	if l.pool, l.db, err = openRegistry(cmd, f.dir); err != nil {
		return nil, err
	}
	if l.keys, err = idempotency.NewService(l.pool, idempotency.Options{}); err == nil {
		l.places, l.found, err = l.db.Find(cmd.Context(), list)
		err = asSetting(err)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *ledger) close() {
	if l.pool != nil {
		pg.Close(l.pool)
	}
}

// knows reports whether a database tells what becomes of deliveries.
func (l *ledger) knows() bool { return l.db != nil }

// look notes which deliveries the gateway has already: they will be duplicates.
func (l *ledger) look(ctx context.Context, acts []*act) error {
	l.began = time.Now()
	if l.db == nil {
		return nil
	}
	for _, a := range acts {
		a.known = make(map[string]bool)
		for key, ref := range l.refs(a) {
			o, err := l.keys.Read(ctx, ref.ref, ref.hash)
			if err != nil {
				return fmt.Errorf("ask for what is known: %w", err)
			}
			a.known[key] = o.Kind == idempotency.Completed
		}
		var err error
		if a.before, err = l.written(ctx, a); err != nil {
			return fmt.Errorf("ask for what is known: %w", err)
		}
	}
	return nil
}

// keyed is a delivery of an act as the plane knows it.
type keyed struct {
	ref  idempotency.Ref
	hash idempotency.Hash
}

// refs are the deliveries of an act that have an id and a job, by their keys. Empty where an alteration
// makes other deliveries of it, and where none is expected to be claimed.
func (l *ledger) refs(a *act) map[string]keyed {
	c := a.capture
	if a.alter != nil || c.Sign.Alter != nil || a.want.Outcomes[capture.Accepted]+a.want.Outcomes[string(drops.Duplicate)] == 0 {
		return nil
	}
	scope, err := idempotency.NewScope("webhook." + c.Provider)
	if err != nil {
		return nil
	}
	refs := make(map[string]keyed)
	for _, d := range c.Deliveries(l.vendors[c.Provider]) {
		job := l.jobOf(c, d.Tenant)
		hash, err := idempotency.ParseHash(d.Hash)
		if err != nil || job == nil {
			continue
		}
		key, err := idempotency.DeliveryKey(job.ID, d.VendorID)
		if err != nil {
			continue // it has no id
		}
		refs[key.String()] = keyed{idempotency.Ref{Organization: job.Organization, Scope: scope, Key: key}, hash}
	}
	return refs
}

// jobOf is the job that a delivery of the capture reaches: the source's for its tenant, or the one that has
// secrets of its own. Nil: none.
func (l *ledger) jobOf(c *capture.Capture, tenant jobs.Identity) *jobs.Job {
	if c.Source == nil {
		return l.found[capture.PlaceKey(c.Provider, "job", c.Job.Name)].Job
	}
	source := l.found[capture.PlaceKey(c.Provider, "source", c.Source.Name)].Source
	if source == nil {
		return nil
	}
	job, ok := l.db.JobFor(source.ID, tenant)
	if (tenant == jobs.Identity{}) {
		job, ok = l.db.Fallback(source.ID)
	}
	if !ok || job.Closed {
		return nil
	}
	return job
}

// expected is what is wanted of an act, given what the gateway had before: that is a duplicate now.
func (a *act) expected() capture.Outcomes {
	known := 0
	for _, k := range a.known {
		if k {
			known++
		}
	}
	known = min(known, a.want.Outcomes[capture.Accepted])
	if known == 0 {
		return a.want.Outcomes
	}
	return a.want.Outcomes.Plus(capture.Outcomes{capture.Accepted: 1}, -known).Plus(capture.Outcomes{string(drops.Duplicate): 1}, known)
}

// settle learns what became of every act whose outcome a database tells: one whose deliveries are expected
// to be kept or to be duplicates, and that is what it is.
func (l *ledger) settle(ctx context.Context, acts []*act) error {
	if l.db == nil {
		return nil
	}
	attributed := make(map[string]bool)
	for _, a := range acts {
		if !tellable(a) {
			continue
		}
		if err := l.settleOne(ctx, a, attributed); err != nil {
			return fmt.Errorf("ask what became of %s: %w", a.name, err)
		}
	}
	return nil
}

// tellable reports whether all of an act was acknowledged, and none of it is a handshake or a refusal.
func tellable(a *act) bool {
	if a.alter != nil || a.capture.Sign.Alter != nil || a.statuses[200] != a.times || a.times == 0 {
		return false
	}
	for name := range a.want.Outcomes {
		switch name {
		case capture.Accepted, string(drops.Duplicate), string(drops.UnknownJob), string(drops.JobMismatch), string(drops.Malformed), string(drops.HashMismatch):
		default:
			return false
		}
	}
	return true
}

func (l *ledger) settleOne(ctx context.Context, a *act, attributed map[string]bool) error {
	got := make(capture.Outcomes)
	deliveries := max(len(a.capture.Deliveries(l.vendors[a.capture.Provider])), 1) * a.times
	for key, ref := range l.refs(a) {
		o, err := l.keys.Read(ctx, ref.ref, ref.hash)
		if err != nil {
			return err
		}
		switch {
		case o.Kind == idempotency.Conflict:
			got[string(drops.HashMismatch)] += a.times
		case o.Kind == idempotency.Completed && attributed[key] && !a.known[key]:
			a.known[key] = true // another capture of this run has the same key
		case o.Kind == idempotency.Completed && !a.known[key]:
			got[capture.Accepted]++
			attributed[key] = true
		}
	}
	now, err := l.written(ctx, a)
	if err != nil {
		return err
	}
	for name, n := range now.Plus(a.before, -1) {
		want := a.want.Outcomes[name]
		if name != capture.Accepted && n < want && a.times > keptBodies {
			n = want // beyond so many a minute a drop keeps no body by which it would be found
		}
		got[name] += n
	}
	if rest := deliveries - got.Total(); rest > 0 {
		got[string(drops.Duplicate)] += rest
	}
	a.got = got.Plus(nil, 0)
	return nil
}

// keptBodies is how many drops of an origin keep their body in a minute.
const keptBodies = 100

const (
	countMinted = `
SELECT count(*) FROM agent.webhook_deliveries WHERE id >= $1 AND provider = $2 AND body = ANY($3)`

	countDropped = `
SELECT reason, sum(count)::int
  FROM agent.webhook_drops
 WHERE id >= $1 AND provider = $2 AND reason <> 'hash_mismatch'
   AND request_id IN (SELECT request_id FROM agent.webhook_drops WHERE id >= $1 AND provider = $2 AND body = $3)
 GROUP BY reason`
)

// written counts what is found by its body, because it has no key: the rows of deliveries without an id of
// the vendor's, and the drops.
func (l *ledger) written(ctx context.Context, a *act) (capture.Outcomes, error) {
	c := a.capture
	since := idSince(l.began.Add(-time.Minute)) // the gateway's clock may be another
	counts := make(capture.Outcomes)
	var bodies [][]byte
	for _, d := range c.Deliveries(l.vendors[c.Provider]) {
		switch {
		case d.VendorID != "":
		case d.Body != nil:
			bodies = append(bodies, d.Body)
		default:
			bodies = append(bodies, c.Content)
		}
	}
	if len(bodies) > 0 {
		var n int
		if err := l.pool.QueryRow(ctx, countMinted, since, c.Provider, bodies).Scan(&n); err != nil {
			return nil, err
		}
		counts[capture.Accepted] = n
	}
	rows, err := l.pool.Query(ctx, countDropped, since, c.Provider, c.Content)
	if err != nil {
		return nil, err
	}
	var reason string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error { counts[reason] = n; return nil })
	return counts, err
}
