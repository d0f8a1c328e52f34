package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers/nylas"
)

// clashOf is what drops show --json says of the gateway's only hash_mismatch.
func (r *running) clashOf() (got struct {
	DeliveryID  *string `json:"delivery_id"`
	Note        *string
	Differences []difference
	Differ      int
}) {
	r.t.Helper()
	c := cliFor(r.t, r.config.DatabaseURL.Reveal(), "")
	res := c.run("drops", "show", "--json", r.dropID(drops.HashMismatch))
	out := struct{ Clash any }{&got}
	if err := json.Unmarshal([]byte(res.stdout), &out); err != nil || res.status != exitOK {
		r.t.Fatalf("drops show: status %d, %v\n%s%s", res.status, err, res.stdout, res.err)
	}
	return got
}

func ref(text string) *string { return &text }

func TestAMismatchIsShownBesideTheDeliveryItClashedWith(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	first := nylasMessage("G1", "n1", 1)
	second := zipped(t, strings.NewReplacer(`"Hello"`, `"Bye",  "unread":true`, `"object":"message",`, "").Replace(nylasMessage("G1", "n1", 2)))
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, first))
	r.ack(r.post("/webhooks/nylas/sources/main", second, nylas.Sign(nylasSecret, second), http.Header{"Content-Encoding": {"gzip"}}))

	want := []difference{
		{Path: "data.object.object", Inbox: ref(`"message"`)},
		{Path: "data.object.subject", Inbox: ref(`"Hello"`), Dropped: ref(`"Bye"`)},
		{Path: "data.object.unread", Dropped: ref(`true`)},
		{Path: "webhook_delivery_attempt", Inbox: ref("1"), Dropped: ref("2")},
	}
	got := r.clashOf()
	if diff := cmp.Diff(want, got.Differences); diff != "" || got.Differ != 4 {
		t.Errorf("%d differ (-want +got):\n%s", got.Differ, diff)
	}
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries WHERE id::text = $1`, *got.DeliveryID)

	c := cliFor(t, r.config.DatabaseURL.Reveal(), "")
	show := c.run("drops", "show", r.dropID(drops.HashMismatch)).stdout
	for _, text := range []string{
		"its key was claimed for delivery " + *got.DeliveryID, "\n  data.object.subject\n    - \"Hello\"\n    + \"Bye\"\n",
		"\n  data.object.unread\n    - (absent)\n    + true\n",
	} {
		if !strings.Contains(show, text) {
			t.Errorf("%q is missing in:\n%s", text, show)
		}
	}

	// The key lives for a day, and whoever looks may come later.
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

func TestAMismatchInABatchIsComparedByItsElement(t *testing.T) {
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
	if diff := cmp.Diff([]difference{{Path: "object_data.attributes", Dropped: ref("{}")}}, got.Differences); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMismatchOfASlackFormIsComparedByItsPayload(t *testing.T) {
	t.Parallel()
	inbox := `payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%221.2%22%7D&a=1`
	dropped := `a=2&payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%223.4%22%7D`
	got, n := differences([]byte(inbox), []byte(dropped), 10)
	want := []difference{
		{Path: "a", Inbox: ref("1"), Dropped: ref("2")},
		{Path: "payload.trigger_id", Inbox: ref(`"1.2"`), Dropped: ref(`"3.4"`)},
	}
	if diff := cmp.Diff(want, got); diff != "" || n != 2 {
		t.Errorf("%d differ (-want +got):\n%s", n, diff)
	}
}

func TestDifferencesAreBoundedAndExact(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("é", 400) + `"`
	for name, tc := range map[string]struct {
		inbox, dropped string
		want           []difference
		all            int
	}{
		"alike":                {`{"a":1,"b":[]}`, `{"b":[],"a":1}`, nil, 0},
		"a number as written":  {`{"a":1.0}`, `{"a":1.00}`, []difference{{"a", ref("1.0"), ref("1.00")}}, 1},
		"a large number":       {`[12345678901234567890]`, `[12345678901234567891]`, []difference{{"[0]", ref("12345678901234567890"), ref("12345678901234567891")}}, 1},
		"more than are listed": {`[1,2,3]`, `[4,5,6]`, []difference{{"[0]", ref("1"), ref("4")}, {"[1]", ref("2"), ref("5")}}, 3},
		"a long text":          {long, `""`, []difference{{"", ref(`"` + strings.Repeat("é", 299) + "…"), ref(`""`)}}, 1},
		"a name with a dot":    {`{"a.b":1}`, `{"a":{"b":1}}`, []difference{{`["a.b"]`, ref("1"), nil}, {"a.b", nil, ref("1")}}, 2},
		"a text and a number":  {`{"a":"1"}`, `{"a":1}`, []difference{{"a", ref(`"1"`), ref("1")}}, 1},
		"no JSON":              {"a\n", "b\n", []difference{{"(the whole body)", ref("a\n"), ref("b\n")}}, 1},
	} {
		got, all := differences([]byte(tc.inbox), []byte(tc.dropped), 2)
		if diff := cmp.Diff(tc.want, got); diff != "" || all != tc.all {
			t.Errorf("%s: %d differ, want %d (-want +got):\n%s", name, all, tc.all, diff)
		}
	}
}

func TestABodyOfTooManyValuesIsNotCompared(t *testing.T) {
	t.Parallel()
	const note = "one of the two has too many values to be compared"
	many := []byte("[" + strings.Repeat("[],", maxValues/2) + "0]")
	dropped := sampleDrop()
	dropped.Body = many
	for name, tt := range map[string]struct {
		dropped drops.Kept
		inbox   []byte
	}{
		"dropped":            {dropped, []byte(`{"a":1}`)},
		"in the inbox":       {sampleDrop(), many},
		"a form's fields":    {sampleDrop(), []byte(strings.Repeat("a=1&", maxValues))},
		"JSON in a form":     {sampleDrop(), []byte("payload=" + strings.Repeat("%5b%5D%2C", maxValues/2))},
		"gzip, in the inbox": {sampleDrop(), zipped(t, string(many))},
	} {
		row := inboxRow{Body: tt.inbox}
		if name == "gzip, in the inbox" {
			row.ContentEncoding = "gzip"
		}
		var c clash
		c.compare(tt.dropped, row)
		if c.note != note || c.differ != 0 {
			t.Errorf("%s: %q, %d differ", name, c.note, c.differ)
		}
	}
	var c clash
	c.compare(sampleDrop(), inboxRow{Body: many[:len(many)/3]}) // no JSON, but not too much of it
	if c.note == note {
		t.Error("a body of fewer values is not compared")
	}
}
