package idempotency_test

import (
	"testing"
	"time"

	"webhook-gateway/idempotency"
)

func TestExtend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	c := b.own(r, content("1"))
	if held, err := b.keys.Extend(t.Context(), c, time.Hour); err != nil || !held || c.Left() < 59*time.Minute || c.Left() > time.Hour {
		t.Errorf("%v, %v, %s left", held, err, c.Left())
	}
	b.pass(59 * time.Minute)
	b.want(b.claim(r, content("1")), idempotency.Processing)
	b.pass(time.Minute)
	b.own(r, content("1"))
	if held, err := b.keys.Extend(t.Context(), c, time.Hour); err != nil || held {
		t.Errorf("a claim that moved on: %v, %v", held, err)
	}
}
