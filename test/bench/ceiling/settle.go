package ceiling

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/test/bench/load"
)

// SettleSpec configures settling without HTTP.
type SettleSpec struct {
	Spec
	Source string    `json:"source"` // name of the requests' source
	Load   load.Spec `json:"load"`   // the load; Connections is how many requests wait at once
}

// collect is the gate's settler: it keeps the work, to be settled later.
type collect struct{ works []*providers.Work }

// Full implements providers.Settler.
func (*collect) Full() bool { return false }

// Settle implements providers.Settler.
func (c *collect) Settle(work *providers.Work, _ func([]providers.Ending)) error {
	c.works = append(c.works, work)
	return nil
}

// Settle settles the load, as many requests at once as it has connections. It writes a line when it begins, and the
// result when it is done.
func Settle(ctx context.Context, spec SettleSpec, out io.Writer) error {
	h, err := newHalf(ctx, spec.Spec, 16)
	if err != nil {
		return err
	}
	defer h.pool.Close()
	works, err := h.collect(ctx, &spec)
	if err != nil {
		return err
	}
	partitions := inbox.NewPartitions(h.pool)
	if _, err := partitions.Ensure(ctx); err != nil {
		return err
	}
	scopes, err := inbox.Scopes(h.vendors)
	if err != nil {
		return err
	}
	box, err := inbox.New(inbox.Deps{
		Pool: h.pool, Keys: idempotency.MustService(h.pool, idempotency.Options{}), Partitions: partitions,
		Registerer: h.registry, Scopes: scopes, Log: h.log,
	}, inbox.Options{
		QueueDeliveries: h.config.QueueDeliveries, QueueBytes: h.config.QueueBytes,
		BatchDeliveries: h.config.BatchDeliveries, BatchBytes: h.config.BatchBytes, Committers: h.config.Committers,
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, `"begun"`); err != nil {
		return err
	}
	before := cpuTime()
	d := &driver{box: box, works: works}
	d.from = time.Now().Add(spec.Load.Warm)
	d.until = d.from.Add(spec.Load.Measure)
	for range spec.Load.Connections {
		d.next()
	}
	result, err := d.wait(ctx)
	box.Stop(context.Background())
	if err != nil {
		return err
	}
	result.CPU = cpuTime() - before
	return json.NewEncoder(out).Encode(result)
}

// collect passes the load's bodies through the gate.
func (h *half) collect(ctx context.Context, spec *SettleSpec) ([]*providers.Work, error) {
	provider := h.vendors[0].Name()
	source, ok := h.directory.Current().Source(provider, spec.Source)
	if !ok {
		return nil, errors.New("the source does not exist")
	}
	c := &collect{works: make([]*providers.Work, 0, spec.Load.Requests)}
	gate := providers.NewGate(h.vendors, h.directory, c, h.ledger, h.config.MaxInflatedBytes)
	err := load.Bodies(&spec.Load, func(body []byte) error {
		now := time.Now()
		_, err := gate.Admit(ctx, &providers.Request{
			ID: uuid.Must(uuid.NewV7()), Seed: providers.NewSeed(), Provider: provider,
			Target:     providers.Target{Source: spec.Source},
			VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: source.ID},
			ReceivedAt: now, ContentType: "application/json",
			Headers: []providers.Header{{Name: "user-agent", Value: "Nylas/1.0"}},
			Body:    bytes.Clone(body),
		}, now.Add(time.Hour))
		return err
	})
	return c.works, err
}

// driver keeps a number of works in progress: when one ends, the next begins.
type driver struct {
	box         *inbox.Inbox
	works       []*providers.Work
	at          atomic.Int64
	flying      atomic.Int64
	kept, all   atomic.Int64
	from, until time.Time
}

func (d *driver) next() {
	i := d.at.Add(1) - 1
	if i >= int64(len(d.works)) || time.Now().After(d.until) {
		return
	}
	d.flying.Add(1)
	err := d.box.Settle(d.works[i], func(endings []providers.Ending) {
		now := time.Now()
		for _, e := range endings {
			if e != (providers.Ending{}) {
				continue
			}
			d.all.Add(1)
			if now.After(d.from) && !now.After(d.until) {
				d.kept.Add(1)
			}
		}
		d.next()
		d.flying.Add(-1)
	})
	if err != nil {
		d.flying.Add(-1)
	}
}

// wait returns when no work is in progress.
func (d *driver) wait(ctx context.Context) (*load.Result, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for d.flying.Load() > 0 {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
	until, ranOut := d.until, false
	if d.at.Load() > int64(len(d.works)) && time.Now().Before(until) {
		until, ranOut = time.Now(), true
	}
	return &load.Result{
		Answered: int(d.kept.Load()), Elapsed: until.Sub(d.from), RanOut: ranOut,
		AllOK: int(d.all.Load()), AllSent: int(min(d.at.Load(), int64(len(d.works)))),
	}, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
