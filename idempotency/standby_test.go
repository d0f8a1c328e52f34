package idempotency_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pgtest"
)

// replicated is a bundle on a primary that waits for a synchronous standby.
type replicated struct {
	*bundle
	primary, standby *pgtest.Server
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	primary := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	standby := pgtest.NewStandby(t, primary)
	if err := primary.Set(t.Context(), "synchronous_standby_names", "*"); err != nil {
		t.Fatal(err)
	}
	url := primary.URL(pgtest.Database)
	pool := open(t, url, func(c *pgxpool.Config) { idempotency.WatchCommits(c.ConnConfig) })
	b := &bundle{T: t, url: url, pool: pool, keys: idempotency.MustService(pool, idempotency.Options{}), org: uuid.New()}
	return &replicated{b, primary, standby}
}

func (r *replicated) stopStandby() {
	r.Helper()
	if err := r.standby.Stop(); err != nil {
		r.Fatal(err)
	}
	for one[int](r.bundle, `SELECT count(*) FROM pg_stat_replication`) > 0 {
	}
}

func (r *replicated) startStandby() {
	r.Helper()
	if err := r.standby.Start(context.Background()); err != nil {
		r.Fatal(err)
	}
}

// Every answer waits for the data behind it: a failover undoes a row that was only visible.
func TestAnswerWaitsForStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ctx := t.Context()
	ref := func(key string) idempotency.Ref { return r.ref("webhook.nylas", key) }
	held, ended := r.own(ref("held"), content("1")), r.own(ref("ended"), content("1"))
	released, many := r.own(ref("released"), content("1")), r.own(ref("many"), content("1"))
	weak := idempotency.MustService(open(t, r.url, func(c *pgxpool.Config) {
		idempotency.WatchCommits(c.ConnConfig)
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
	}), idempotency.Options{})
	r.stopStandby()
	stop := r.primary.CancelWaits()

	task := idempotency.Task[int]{Ref: ref("ended"), Content: content("1"), Lease: lease}
	effect := func(context.Context, *idempotency.Claim) (int, error) { return 1, nil }
	for _, tt := range []struct {
		name string
		call func() (answered any, err error)
	}{
		{"Complete", func() (any, error) { return r.keys.Complete(ctx, ended, response(`1`)) }},
		{"Complete again", func() (any, error) { return r.keys.Complete(ctx, ended, response(`1`)) }},
		{"Claim of a completed key", func() (any, error) { return r.keys.Claim(ctx, ref("ended"), content("1"), lease) }},
		{"Claim of it for other content", func() (any, error) { return r.keys.Claim(ctx, ref("ended"), content("2"), lease) }},
		{"Read of a completed key", func() (any, error) { return r.keys.Read(ctx, ref("ended"), content("1")) }},
		{"Do of a completed key", func() (any, error) { return idempotency.Do(ctx, r.keys, task, effect) }},
		{"ClaimMany", func() (any, error) {
			return r.keys.ClaimMany(ctx, []idempotency.Wanted{{Ref: ref("ended"), Content: content("1")}}, lease)
		}},
		{"Claim of a held key", func() (any, error) { return r.keys.Claim(ctx, ref("held"), content("1"), lease) }},
		{"Claim of a new key", func() (any, error) { return r.keys.Claim(ctx, ref("new"), content("1"), lease) }},
		{"CompleteMany", func() (any, error) {
			return r.keys.CompleteMany(ctx, []idempotency.Ending{{Claim: many, Answer: response(`1`)}})
		}},
		{"Release", func() (any, error) { return r.keys.Release(ctx, released) }},
		{"InTx", func() (any, error) {
			return idempotency.InTx(ctx, r.keys, idempotency.Task[int]{Ref: ref("rows"), Content: content("1"), Lease: lease},
				func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) { return 1, nil })
		}},
		{"Claim where synchronous_commit is local", func() (any, error) { return weak.Claim(ctx, ref("ended"), content("1"), lease) }},
	} {
		if answered, err := tt.call(); err == nil {
			t.Errorf("%s answers %+v before the standby has it", tt.name, answered)
		}
	}

	stop()
	r.startStandby()
	if !r.complete(ended, response(`1`)) || !r.complete(held, response(`1`)) {
		t.Error("a completion is not recorded once the standby is back")
	}
	r.want(r.claim(ref("ended"), content("1")), idempotency.Completed)
}

// A primary that restarts while a COMMIT waits shows the row, and no longer waits.
func TestPrimaryRestartsWaiting(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	ref := r.ref("webhook.nylas", "1")
	claim := r.own(ref, content("1"))
	r.stopStandby()
	lost := make(chan error, 1)
	go func() {
		_, err := r.keys.Complete(context.Background(), claim, response(`1`))
		lost <- err
	}()
	for one[int](r.bundle, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) == 0 {
	}
	if err := r.primary.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err == nil {
		t.Error("the completion is answered although its server crashed while it waited")
	}
	if err := r.primary.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.pool.Reset()
	if got := one[string](r.bundle, `SELECT status FROM agent.idempotency_keys`); got != "completed" {
		t.Fatalf("the key is %s: the test shows nothing", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if o, err := r.keys.Claim(ctx, ref, content("1"), lease); err == nil {
		t.Errorf("a claim answers %s before the standby has it", o.Kind)
	}
	r.startStandby()
	r.want(r.claim(ref, content("1")), idempotency.Completed)
}
