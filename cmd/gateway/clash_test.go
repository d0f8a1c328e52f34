package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/internal/clash"
	"webhook-gateway/jobs"
	"webhook-gateway/providers/nylas"
)

// clashOf is what drops show --json says of the gateway's only hash_mismatch.
func (r *running) clashOf() (got clash.Clash) {
	r.t.Helper()
	c := cliFor(r.t, r.config.DatabaseURL.Reveal(), "")
	res := c.run("drops", "show", "--json", r.dropID(drops.HashMismatch))
	out := struct{ Clash any }{&got}
	if err := json.Unmarshal([]byte(res.stdout), &out); err != nil || res.status != exitOK {
		r.t.Fatalf("drops show: status %d, %v\n%s%s", res.status, err, res.stdout, res.err)
	}
	return got
}

func TestDropsShowClash(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	first := nylasMessage("G1", "n1", 1)
	second := zipped(t, strings.NewReplacer(`"Hello"`, `"Bye",  "unread":true`, `"object":"message",`, "").Replace(nylasMessage("G1", "n1", 2)))
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, first))
	r.ack(r.post("/webhooks/nylas/sources/main", second, nylas.Sign(nylasSecret, second), http.Header{"Content-Encoding": {"gzip"}}))

	want := []clash.Difference{
		{Path: "data.object.object", Inbox: new(`"message"`)},
		{Path: "data.object.subject", Inbox: new(`"Hello"`), Dropped: new(`"Bye"`)},
		{Path: "data.object.unread", Dropped: new(`true`)},
		{Path: "webhook_delivery_attempt", Inbox: new("1"), Dropped: new("2")},
	}
	got := r.clashOf()
	if diff := cmp.Diff(want, got.Differences); diff != "" || got.Differ != 4 {
		t.Errorf("%d differ (-want +got):\n%s", got.Differ, diff)
	}
	r.wantDeliveries(1, feed.Filter{IDs: []uuid.UUID{*got.DeliveryID}})

	c := cliFor(t, r.config.DatabaseURL.Reveal(), "")
	show := c.run("drops", "show", r.dropID(drops.HashMismatch)).stdout
	for _, text := range []string{
		"its key was claimed for delivery " + got.DeliveryID.String(), "\n  data.object.subject\n    - \"Hello\"\n    + \"Bye\"\n",
		"\n  data.object.unread\n    - (absent)\n    + true\n",
	} {
		if !strings.Contains(show, text) {
			t.Errorf("%q is missing in:\n%s", text, show)
		}
	}

	// The key lives for a day, the drop for two weeks.
	if _, err := r.pool.Exec(t.Context(), `DELETE FROM agent.idempotency_keys`); err != nil {
		t.Fatal(err)
	}
	if later := r.clashOf(); later.DeliveryID == nil || *later.DeliveryID != *got.DeliveryID || later.Differ != 4 {
		t.Errorf("without its key: %+v", later)
	}
	if _, err := r.pool.Exec(t.Context(), `DELETE FROM agent.webhook_deliveries`); err != nil {
		t.Fatal(err)
	}
	if gone := r.clashOf(); gone.DeliveryID != nil || gone.Note == nil || !strings.Contains(*gone.Note, "not in the inbox any more") {
		t.Errorf("without the delivery: %+v", gone)
	}
}

func TestDropsShowClashInABatch(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	r.addSource("nylas", "main", nylasSecret)
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "account_id", Value: "A1"}}})
	batch := func(extra string) string {
		return fmt.Sprintf(`{"deltas":[{"date":1,"type":"a","object_data":{"id":"1","account_id":"A1"}},{"date":1,"type":"b","object_data":{"id":"2","account_id":"A1"%s}}]}`, extra)
	}
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, batch(``)))
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, batch(`,"attributes":{}`)))
	got := r.clashOf()
	if diff := cmp.Diff([]clash.Difference{{Path: "object_data.attributes", Dropped: new("{}")}}, got.Differences); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
