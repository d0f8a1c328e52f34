package providers_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/providers"
)

func TestMintedIDs(t *testing.T) {
	t.Parallel()
	req := &providers.Request{Seed: providers.NewSeed(), ReceivedAt: time.UnixMilli(1_700_000_000_123)}
	text, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var again providers.Request
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	seen := make(map[uuid.UUID]bool)
	var ids []uuid.UUID
	for n := range providers.MaxDeliveries {
		for _, use := range []providers.Minted{providers.DeliveryID, providers.ClaimID, providers.LeaseToken, providers.DropID} {
			id := req.Mint(use, n)
			version := uuid.Version(7)
			if use == providers.LeaseToken {
				version = 4
			}
			if id != again.Mint(use, n) || id.Version() != version || id.Variant() != uuid.RFC4122 || seen[id] {
				t.Fatalf("id %d for %c: %s", n, use, id)
			}
			seen[id] = true
		}
		ids = append(ids, req.Mint(providers.DeliveryID, n))
	}
	if !slices.IsSortedFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		t.Error("ids do not sort by position")
	}
	if seconds, nanos := ids[0].Time().UnixTime(); seconds != 1_700_000_000 || nanos/1_000_000 != 123 {
		t.Errorf("the id's time is %d.%09d", seconds, nanos)
	}
	other := &providers.Request{Seed: providers.NewSeed(), ReceivedAt: req.ReceivedAt}
	if other.Mint(providers.DeliveryID, 0) == ids[0] {
		t.Error("two requests mint the same id")
	}
}
