package replay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/registry"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Database is the gateway's database, which shows how deliveries ended.
type Database struct {
	registry *registry.Registry
	found    map[string]registry.Found
	vendors  map[string]providers.Provider
	keys     *idempotency.Service
	feed     *feed.Reader
	drops    *drops.Store

	began      time.Time
	attributed map[string]bool // keys that a case of this run has won
}

// NewDatabase returns a database over the pool, which stays the caller's. found holds the sources and jobs that the
// registry found for the captures.
func NewDatabase(pool *pgxpool.Pool, reg *registry.Registry, found map[string]registry.Found, vendors map[string]providers.Provider) (*Database, error) {
	keys, err := idempotency.NewService(pool, idempotency.Options{})
	return &Database{registry: reg, found: found, vendors: vendors, keys: keys, feed: feed.NewReader(pool), drops: drops.NewStore(pool),
		attributed: make(map[string]bool)}, err
}

// look records which deliveries the gateway has already: they will be duplicates.
func (d *Database) look(ctx context.Context, cases []*Case) error {
	d.began = time.Now()
	for _, c := range cases {
		c.known = make(map[string]bool)
		for key, ref := range d.refs(c) {
			o, err := d.keys.Read(ctx, ref.ref, ref.hash)
			if err != nil {
				return err
			}
			c.known[key] = o.Kind == idempotency.Completed
		}
		var err error
		if c.before, err = d.written(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// keyed is a delivery of a case as the plane knows it.
type keyed struct {
	ref  idempotency.Ref
	hash idempotency.Hash
}

// refs returns the deliveries of a case that have an id and a job, by their keys. It returns none when an alteration
// changes the deliveries, or when none should be claimed.
func (d *Database) refs(c *Case) map[string]keyed {
	if c.altered() || c.want.Outcomes[capture.Accepted]+c.want.Outcomes[string(drops.Duplicate)] == 0 {
		return nil
	}
	scope, err := inbox.Scope(d.vendors[c.Capture.Provider])
	if err != nil {
		return nil
	}
	refs := make(map[string]keyed)
	for _, delivery := range d.deliveries(c) {
		job := d.jobOf(c.Capture, delivery.Tenant)
		hash, err := idempotency.ParseHash(delivery.Hash)
		if err != nil || job == nil {
			continue
		}
		key, err := idempotency.DeliveryKey(job.ID, delivery.VendorID)
		if err != nil {
			continue // it has no id
		}
		refs[key.String()] = keyed{idempotency.Ref{Organization: job.Organization, Scope: scope, Key: key}, hash}
	}
	return refs
}

func (d *Database) deliveries(c *Case) []providers.Delivery {
	return c.Capture.Deliveries(d.vendors[c.Capture.Provider])
}

func (c *Case) altered() bool { return c.alter != nil || c.Capture.Sign.Alter != nil }

// jobOf returns the active job that a delivery of the capture reaches: the source's job for its tenant, or the job
// with its own secrets. Nil if there is none.
func (d *Database) jobOf(c *capture.Capture, tenant jobs.Identity) *jobs.Job {
	if c.Source == nil {
		return d.found[capture.PlaceKey(c.Provider, "job", c.Job.Name)].Job
	}
	source := d.found[capture.PlaceKey(c.Provider, "source", c.Source.Name)].Source
	if source == nil {
		return nil
	}
	job, ok := d.registry.JobFor(source.ID, tenant)
	if (tenant == jobs.Identity{}) {
		job, ok = d.registry.Fallback(source.ID)
	}
	if !ok || job.Closed {
		return nil
	}
	return job
}

// outcomesKnown reports whether the database shows all outcomes of a case. It does when every request was
// acknowledged, and none is a handshake or refused.
func (c *Case) outcomesKnown() bool {
	if c.altered() || c.Statuses[200] != c.times || c.times == 0 {
		return false
	}
	for name := range c.want.Outcomes {
		switch name {
		case capture.Accepted, string(drops.Duplicate), string(drops.UnknownJob), string(drops.JobMismatch), string(drops.Malformed), string(drops.HashMismatch):
		default:
			return false
		}
	}
	return true
}

// keptBodies is the number of drops of one origin that keep their body in one minute.
const keptBodies = 100

// settle finds the outcomes of a case.
func (d *Database) settle(ctx context.Context, c *Case) error {
	got := make(capture.Outcomes)
	deliveries := max(len(d.deliveries(c)), 1) * c.times
	for key, ref := range d.refs(c) {
		o, err := d.keys.Read(ctx, ref.ref, ref.hash)
		if err != nil {
			return err
		}
		switch {
		case o.Kind == idempotency.Conflict:
			got[string(drops.HashMismatch)] += c.times
		case o.Kind == idempotency.Completed && d.attributed[key] && !c.known[key]:
			c.known[key] = true // another capture of this run has the same key
		case o.Kind == idempotency.Completed && !c.known[key]:
			got[capture.Accepted]++
			d.attributed[key] = true
		}
	}
	now, err := d.written(ctx, c)
	if err != nil {
		return err
	}
	for name, n := range now.Plus(c.before, -1) {
		want := c.want.Outcomes[name]
		if name != capture.Accepted && n < want && c.times > keptBodies {
			n = want // further drops in a minute keep no body, so they cannot be found
		}
		got[name] += n
	}
	if rest := deliveries - got.Total(); rest > 0 {
		got[string(drops.Duplicate)] += rest
	}
	c.Outcomes = got.Plus(nil, 0)
	return nil
}

// written counts the outcomes that have no key, and finds them by body: deliveries without a vendor's id, and drops.
// It leaves out hash_mismatch, which the key shows.
func (d *Database) written(ctx context.Context, c *Case) (capture.Outcomes, error) {
	since := d.began.Add(-time.Minute) // the gateway's clock may differ
	counts := make(capture.Outcomes)
	var bodies [][]byte
	for _, delivery := range d.deliveries(c) {
		switch {
		case delivery.VendorID != "":
		case delivery.Body != nil:
			bodies = append(bodies, delivery.Body)
		default:
			bodies = append(bodies, c.Capture.Content)
		}
	}
	if len(bodies) > 0 {
		for _, err := range d.feed.All(ctx, feed.Filter{Provider: c.Capture.Provider, Bodies: bodies, ReceivedFrom: since}) {
			if err != nil {
				return nil, err
			}
			counts[capture.Accepted]++
		}
	}
	dropped, err := d.drops.CountBody(ctx, feed.FirstID(since), c.Capture.Provider, c.Capture.Content)
	for reason, n := range dropped {
		if reason != drops.HashMismatch {
			counts[string(reason)] = n
		}
	}
	return counts, err
}
