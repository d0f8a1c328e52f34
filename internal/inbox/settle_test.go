package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/providers"
)

func TestStoredOnceWithKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	work := w.request(w.item("Ev1", "a"))
	w.wantEndings(w.settle(work), accepted)
	w.wantEndings(w.settle(w.request(w.item("Ev1", "a"))), duplicate)
	w.wantRows(1, 1, 0)

	type stored struct {
		Organization, Job, Provider, Key, Type, Headers, ContentType, Encoding, Body, Ordering string
		Scope, ResourceType                                                                    string
		SameID, SameHash, ReceivedAsSaid                                                       bool
	}
	var got stored
	err := w.pool.QueryRow(context.Background(), `
		SELECT d.organization_id::text, d.job_id::text, d.provider, d.delivery_key, d.event_type, d.headers::text, d.content_type,
		       d.content_encoding, convert_from(d.body, 'UTF8'), d.ordering_key, k.scope, k.resource_type,
		       k.resource_id = d.id::text, k.request_hash = d.request_hash, d.received_at = $1
		  FROM agent.webhook_deliveries d JOIN agent.idempotency_keys k ON k.key = d.delivery_key`, work.Request.ReceivedAt.Truncate(time.Microsecond)).
		Scan(&got.Organization, &got.Job, &got.Provider, &got.Key, &got.Type, &got.Headers, &got.ContentType, &got.Encoding,
			&got.Body, &got.Ordering, &got.Scope, &got.ResourceType, &got.SameID, &got.SameHash, &got.ReceivedAsSaid)
	if err != nil {
		t.Fatal(err)
	}
	want := stored{
		Organization: w.org.String(), Job: w.job.String(), Provider: "slack", Key: w.job.String() + "/Ev1", Type: "message",
		Headers: `[["x-slack-retry-num","1"]]`, ContentType: "application/json", Body: `{"whole":"request"}`, Ordering: "C1",
		Scope: "webhook.slack", ResourceType: "webhook_delivery", SameID: true, SameHash: true, ReceivedAsSaid: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTwentyAtOnceHaveOneOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	works := make([]*providers.Work, 20)
	for i := range works {
		works[i] = w.request(w.item("Ev1", "a"))
	}
	got := w.settle(works...)
	slices.Sort(got)
	want := slices.Repeat([]string{duplicate}, 19)
	w.wantEndings(got, append([]string{accepted}, want...)...)
	w.wantRows(1, 1, 0)
}

func TestHashMismatchKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.wantEndings(w.settle(w.request(w.item("Ev1", "a"))), accepted)
	other := w.request(w.item("Ev1", "b"))
	other.Request.Body = []byte("the other body")
	w.wantEndings(w.settle(other), mismatch)
	w.wantRows(1, 1, 1)
	if n := w.count(`SELECT count(*) FROM agent.webhook_drops
	                  WHERE reason = 'hash_mismatch' AND body = 'the other body' AND delivery_key = $1 AND job_id = $2 AND organization_id = $3`,
		w.job.String()+"/Ev1", w.job, w.org); n != 1 {
		t.Error("the other body is not kept with its key")
	}
}

func TestRepeatsInOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.wantEndings(w.settle(w.request(
		w.item("1", "a"), w.item("2", "a"), w.item("1", "a"), w.item("1", "b"), w.item("", "a"), w.item("", "a"),
	)), accepted, accepted, duplicate, mismatch, accepted, accepted)
	w.wantRows(4, 4, 1)
}

func TestBatchWithKnownKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.settle(w.request(w.item("1", "a"), w.item("2", "a"), w.item("3", "a")))
	w.wantEndings(w.settle(w.request(
		w.item("1", "a"), w.item("4", "a"), w.item("2", "a"), w.item("5", "a"), w.item("3", "a"),
	)), duplicate, accepted, duplicate, accepted, duplicate)
	w.wantRows(5, 5, 0)
}

func TestElementStoredAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	item := w.item("1", "a")
	item.Body = []byte(`{"element":1}`)
	work := w.request(item)
	work.Request.ContentEncoding = "gzip"
	w.wantEndings(w.settle(work), accepted)
	if n := w.count(`SELECT count(*) FROM agent.webhook_deliveries WHERE body = '{"element":1}' AND content_encoding = ''`); n != 1 {
		t.Error("the element's bytes are not stored as they were")
	}
}

func TestDropsKeepRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	var items []providers.Item
	for _, reason := range []drops.Reason{drops.UnknownJob, drops.JobMismatch, drops.Malformed} {
		items = append(items, providers.Item{Reason: reason, Detail: "why"})
	}
	w.wantEndings(w.settle(w.request(items...)), "unknown_job", "job_mismatch", malformed)
	w.wantRows(0, 0, 3)
	if n := w.count(`SELECT count(*) FROM agent.webhook_drops WHERE body = '{"whole":"request"}' AND verified_by = 'source'`); n != 1 {
		t.Errorf("the request is kept %d times, want once for all of its drops", n)
	}
}

func TestDropsBeyondBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	var works []*providers.Work
	for range 1100 {
		works = append(works, w.request(providers.Item{Reason: drops.UnknownJob}))
	}
	for _, end := range w.settle(works...) {
		if end != "unknown_job" {
			t.Fatalf("ended as %s", end)
		}
	}
	if n := w.count(`SELECT count(*) FROM agent.webhook_drops WHERE body IS NOT NULL`); n != 100 {
		t.Errorf("%d drops kept with a body, want 100", n)
	}
	w.wantRows(0, 0, 1000)
}

// poison makes the database refuse a delivery for its data, as a type it cannot store would.
func (w *world) poison() {
	w.exec(`ALTER TABLE agent.webhook_deliveries ADD CONSTRAINT poison CHECK (event_type <> 'poison')`)
}

func TestPoisonStandsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.poison()
	var items []providers.Item
	want := make([]string, 50)
	for i := range want {
		items = append(items, w.item(fmt.Sprint(i), "a"))
		want[i] = accepted
	}
	for _, i := range []int{0, 31, 49} {
		items[i].Type = "poison"
		want[i] = malformed
	}
	w.wantEndings(w.settle(w.request(items...)), want...)
	w.wantRows(47, 47, 3)
}

func TestADropThatIsRefusedTooFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.poison()
	w.exec(`ALTER TABLE agent.webhook_drops ADD CONSTRAINT poison CHECK (event_type <> 'poison')`)
	item := w.item("1", "a")
	item.Type = "poison"
	w.wantEndings(w.settle(w.request(item, w.item("2", "a"))), failed, accepted)
}

func TestStorableText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	item := w.item("id\x00\xff%", "a")
	item.Type = "type\x00\xff" + strings.Repeat("é", 300)
	item.OrderingKey = "key\x00\xc3"
	work := w.request(item)
	work.Request.ContentType = "text/\xfe\x00"
	work.Request.ContentEncoding = "\xfe\x00"
	work.Request.Headers = []providers.Header{{Name: "user-agent", Value: "\x00\xff"}}
	work.Request.Body = []byte("\x00\xff")
	w.wantEndings(w.settle(work), accepted)
	w.wantEndings(w.settle(w.request(item)), duplicate)
	w.wantRows(1, 1, 0)
	if n := w.count(`SELECT count(*) FROM agent.webhook_deliveries WHERE event_type LIKE 'type\\x00\\xff%' AND octet_length(event_type) <= 200
	                  AND ordering_key = 'key\x00\xc3' AND body = '\x00ff'::bytea`); n != 1 {
		t.Error("not stored as escapes")
	}
}

func TestAMissingDayIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.exec(`DO $$ DECLARE day text; BEGIN
	          FOR day IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'agent.webhook_deliveries'::regclass
	          LOOP EXECUTE 'DROP TABLE ' || day; END LOOP; END $$`)
	w.wantEndings(w.settle(w.request(w.item("1", "a")), w.request(w.item("2", "a"))), accepted, accepted)
	w.wantRows(2, 2, 0)
}

func TestTooLateFailsWithoutRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	work := w.request(w.item("1", "a"))
	work.Deadline = time.Now()
	w.wantEndings(w.settle(work), failed)
	w.wantRows(0, 0, 0)
}

func TestStopSettlesWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	ended := make(chan string, 100)
	for i := range 100 {
		if err := w.box.Settle(w.request(w.item(fmt.Sprint(i), "a")), func(e []providers.Ending) { ended <- say(e[0]) }); err != nil {
			t.Fatal(err)
		}
	}
	w.box.Stop(t.Context())
	for range 100 {
		select {
		case end := <-ended:
			if end != accepted {
				t.Fatalf("ended as %s", end)
			}
		default:
			t.Fatal("a delivery has no ending after Stop")
		}
	}
	w.wantRows(100, 100, 0)
	if err := w.box.Settle(w.request(w.item("x", "a")), nil); err != providers.ErrOverloaded {
		t.Errorf("settle after stop: %v, want ErrOverloaded", err)
	}
}

func TestOrganizationsDoNotMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	one, two := w.item("1", "a"), w.item("1", "b")
	two.Organization, two.Job = uuid.New(), uuid.New()
	w.wantEndings(w.settle(w.request(one), w.request(two)), accepted, accepted)
	w.wantRows(2, 2, 0)
}

func TestRequestLargerThanQueue(t *testing.T) {
	t.Parallel()
	options := defaults
	options.QueueDeliveries, options.QueueBytes = 2, 10
	w := newWorld(t, options)
	w.wantEndings(w.settle(w.request(w.item("1", "a"), w.item("2", "a"), w.item("3", "a"))), accepted, accepted, accepted)
}
