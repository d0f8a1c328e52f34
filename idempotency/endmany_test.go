package idempotency_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/idempotency"
)

func TestCompleteManyEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ops []idempotency.Op
	keys := idempotency.MustService(b.pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) { ops = append(ops, e.Op) }})
	ref := func(i int) idempotency.Ref { return b.ref("tool.x", strconv.Itoa(i)) }
	doubtful := b.own(ref(3), content("1"))
	lost := b.own(ref(4), content("1"))
	b.pass(lease)
	reclaimed, successor := b.own(ref(3), content("1")), b.own(ref(4), content("1"))
	claims := []*idempotency.Claim{b.own(ref(0), content("1")), b.own(ref(1), content("1")), b.own(ref(2), content("1")), reclaimed, lost}
	recorded, err := keys.CompleteMany(t.Context(), []idempotency.Ending{
		{Claim: claims[1], End: idempotency.EndNoEffect},
		{Claim: claims[2], End: idempotency.EndUnknown},
		{Claim: claims[0], Answer: response(`0`)},
		{Claim: reclaimed, End: idempotency.EndNoEffect},
		{Claim: lost, End: idempotency.EndNoEffect},
	})
	if diff := cmp.Diff([]bool{true, false, true, true, false}, recorded); diff != "" || err != nil {
		t.Errorf("recorded (-want +got), %v:\n%s", err, diff)
	}
	slices.Sort(ops)
	want := []idempotency.Op{idempotency.OpAbandon, idempotency.OpComplete, idempotency.OpRelease, idempotency.OpRelease, idempotency.OpRelease}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Errorf("the observer is told (-want +got):\n%s", diff)
	}
	b.want(b.read(ref(0), content("1")), idempotency.Completed)
	if c := b.own(ref(1), content("1")); c.Reclaimed {
		t.Error("what had no effect is told as a reclaim")
	}
	b.want(b.read(ref(2), content("1")), idempotency.Processing)
	if c := b.own(ref(3), content("1")); !c.Reclaimed || c.Token == doubtful.Token {
		t.Error("the doubt of an earlier worker is forgotten")
	}
	if !b.complete(successor, response(`1`)) {
		t.Error("a lost claim released its successor's")
	}
}

func TestCompleteManyBadEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good, bad := b.own(b.ref("tool.x", "good"), content("1")), b.own(b.ref("tool.x", "bad"), content("1"))
	for name, e := range map[string]idempotency.Ending{
		"another number":        {Claim: bad, End: 3},
		"released, an answer":   {Claim: bad, End: idempotency.EndNoEffect, Answer: response(`1`)},
		"left alone, an answer": {Claim: bad, End: idempotency.EndUnknown, Answer: response(`1`)},
	} {
		_, err := b.keys.CompleteMany(t.Context(), []idempotency.Ending{{Claim: good, Answer: response(`1`)}, e})
		if !errors.Is(err, idempotency.ErrEnd) || !strings.Contains(err.Error(), "item 1: ") {
			t.Errorf("%s: %v, want ErrEnd for item 1", name, err)
		}
	}
	b.want(b.read(good.Ref, content("1")), idempotency.Processing)
}
