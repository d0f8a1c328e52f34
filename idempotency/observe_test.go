package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/idempotency"
)

func TestObserverSeesAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	var got []idempotency.Event
	b.keys = idempotency.MustService(b.pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) {
		mu.Lock()
		defer mu.Unlock()
		e.Took = 0
		got = append(got, e)
	}})
	r := b.ref("tool.x", "k")
	b.read(r, content("1"))
	late := b.own(r, content("1"))
	b.claim(r, content("2"))
	b.pass(lease)
	c := b.own(r, content("1"))
	b.complete(late, response(`1`))
	b.complete(c, response(`1`))
	b.claimMany(idempotency.Wanted{Ref: r, Content: content("1")})
	other := b.ref("tool.x", "other")
	b.release(b.own(other, content("1")))
	want := []idempotency.Event{
		{Op: idempotency.OpRead, Ref: r, Kind: idempotency.Absent},
		{Op: idempotency.OpClaim, Ref: r, Kind: idempotency.Claimed},
		{Op: idempotency.OpClaim, Ref: r, Kind: idempotency.Conflict},
		{Op: idempotency.OpClaim, Ref: r, Kind: idempotency.Claimed, Reclaimed: true},
		{Op: idempotency.OpComplete, Ref: r, Kind: idempotency.Claimed, FenceLost: true},
		{Op: idempotency.OpComplete, Ref: r, Kind: idempotency.Claimed, Reclaimed: true},
		{Op: idempotency.OpClaim, Ref: r, Kind: idempotency.Completed},
		{Op: idempotency.OpClaim, Ref: other, Kind: idempotency.Claimed},
		{Op: idempotency.OpRelease, Ref: other, Kind: idempotency.Claimed},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b idempotency.Ref) bool { return a == b })); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !got[6].Replayed() || got[5].Replayed() {
		t.Error("replayed is not what was replayed")
	}
}

func TestLogLineHasKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var line bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&line, nil))
	log.Info("claimed", "claim", idempotency.Event{Op: idempotency.OpClaim, Ref: b.ref("tool.x", "k"), Kind: idempotency.Completed})
	var got struct {
		Claim map[string]any `json:"claim"`
	}
	if err := json.Unmarshal(line.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"organization_id": b.org.String(), "scope": "tool.x", "key": "k",
		"op": "claim", "kind": "completed", "replayed": true, "reclaimed": false, "fence_lost": false,
	}
	if diff := cmp.Diff(want, got.Claim); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}
