package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"webhook-gateway/idempotency"
)

// A server's restart costs a moment, and repeats no effect.
func TestFinishOutlivesOutage(t *testing.T) {
	t.Parallel()
	b, w := onWire(t)
	r := b.ref("tool.email.send", "k")
	got, err := idempotency.Do(t.Context(), b.keys, task[int](r), func(context.Context, *idempotency.Claim) (int, error) {
		w.failing.Store(10) // more than a statement is resent for
		return 1, nil
	})
	if err != nil || got.Unrecorded != nil {
		t.Errorf("%+v, %v, want it recorded", got, err)
	}
	if w.failing.Load() > 0 {
		t.Error("the outage was shorter than planned")
	}
	b.want(b.read(r, content("1")), idempotency.Completed)
}

// A lock on the row is an outage too: its holder ends.
func TestFinishWaitsForLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	c := b.own(r, content("1"))
	tx := b.begin()
	if _, err := tx.Exec(t.Context(), `SELECT FROM agent.idempotency_keys FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	finished := make(chan error, 1)
	go func() { finished <- b.keys.Finish(context.Background(), c, response(`1`)) }()
	b.blocked(1)
	if _, err := b.keys.Complete(t.Context(), c, response(`1`)); !errors.Is(err, idempotency.ErrLockTimeout) {
		t.Errorf("a single Complete answers %v, want ErrLockTimeout", err)
	}
	b.commit(tx)
	if err := <-finished; err != nil {
		t.Errorf("got %v", err)
	}
}

// An error that another attempt cannot change is returned at once.
func TestFinishPermanentError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.own(b.ref("tool.x", "k"), content("1"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := b.keys.Finish(ctx, c, idempotency.Answer{})
	if !errors.Is(err, idempotency.ErrEmptyAnswer) || strings.Contains(err.Error(), "in time") {
		t.Errorf("got %v, want ErrEmptyAnswer after one attempt", err)
	}
}
