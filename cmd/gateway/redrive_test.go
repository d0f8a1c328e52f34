package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
)

// redriven is what drops redrive --json says.
type redriven struct {
	DryRun bool `json:"dry_run"`
	Drops  []struct {
		Outcome *string
		Detail  string
	}
	Counts map[string]int
	More   bool
}

// redrive runs gateway drops redrive on the gateway's database.
func (r *running) redrive(status int, args ...string) redriven {
	r.t.Helper()
	c := cliFor(r.t, r.config.DatabaseURL.Reveal(), "") // it needs no key
	got := c.run(append([]string{"drops", "redrive", "--json"}, args...)...)
	var out redriven
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil || got.status != status {
		r.t.Fatalf("drops redrive %v: status %d, want %d; %v\n%s%s", args, got.status, status, err, got.stdout, got.err)
	}
	return out
}

// dropID is the id of the only drop of a reason.
func (r *running) dropID(reason drops.Reason) string {
	r.t.Helper()
	list, _, err := drops.NewStore(r.pool).List(r.t.Context(), drops.Filter{Reason: reason, Limit: 2})
	if err != nil || len(list) != 1 {
		r.t.Fatalf("%d drops for %s, want one: %v", len(list), reason, err)
	}
	return list[0].ID.String()
}

func TestRedriveAccepts(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	body := nylasMessage("G9", "n1", 1)
	r.ack(r.post("/webhooks/nylas/sources/main", []byte(body), nylas.Sign(nylasSecret, []byte(body)), http.Header{"User-Agent": {"Nylas/1.0"}}))
	id := r.dropID(drops.UnknownJob)
	job := r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G9"}}})

	got := r.redrive(exitOK, id, "--by", "sam", "--why", "G9 was registered late")
	if len(got.Drops) != 1 || got.Drops[0].Outcome == nil || *got.Drops[0].Outcome != "accepted" || got.Counts["accepted"] != 1 {
		t.Fatalf("%+v, want one accepted", got)
	}
	store, dropped := drops.NewStore(r.pool), uuid.MustParse(id)
	kept, err := store.Find(t.Context(), dropped)
	if err != nil {
		t.Fatal(err)
	}
	redrives, err := store.Redrives(t.Context(), []uuid.UUID{dropped})
	if err != nil || len(redrives[dropped]) != 1 {
		t.Fatal(redrives, err)
	}
	by := redrives[dropped][0]
	if by.By != "sam" || by.Why != "G9 was registered late" || by.Outcome != drops.Accepted {
		t.Errorf("recorded: %+v", by)
	}
	stored, err := feed.NewReader(r.pool).Find(t.Context(), by.Delivery)
	if err != nil {
		t.Fatal(err)
	}
	if stored.JobID != job.ID || stored.OrganizationID != job.Organization || string(stored.Body) != body ||
		stored.DeliveryKey != job.ID.String()+"/n1" || stored.Headers != `[["user-agent","Nylas/1.0"]]` || !stored.ReceivedAt.Equal(kept.ReceivedAt) {
		t.Errorf("stored: %+v", stored)
	}

	// The vendor's own retry is a duplicate now, and so is nothing else: the drop is not driven twice.
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", "n1", 2)))
	again := r.redrive(exitFailed, id, "--why", "once more")
	if again.Drops[0].Outcome != nil || !strings.Contains(again.Drops[0].Detail, "redriven by sam") {
		t.Errorf("the second time: %+v, want it refused", again.Drops[0])
	}
	r.wantDeliveries(1)

	c := cliFor(t, r.config.DatabaseURL.Reveal(), "")
	if show := c.run("drops", "show", id); !strings.Contains(show.stdout, " by sam (G9 was registered late): accepted, as delivery ") {
		t.Errorf("drops show does not tell that it was driven again:\n%s%s", show.stdout, show.err)
	}
	if list := c.run("drops", "list"); !strings.Contains(list.stdout, "  accepted  ") {
		t.Errorf("drops list does not tell that it was driven again:\n%s%s", list.stdout, list.err)
	}
}

func TestRedriveByFilter(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	send := func(grant, id, subject string) {
		body := strings.Replace(nylasMessage(grant, id, 1), "Hello", subject, 1)
		r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, body))
	}
	for _, id := range []string{"new", "kept", "other"} {
		send("G9", id, "Hello")
	}
	send("G8", "unknown", "Hello")
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G9"}}})
	send("G9", "kept", "Hello") // again, and in time
	send("G9", "other", "Not hello")
	r.wantDeliveries(2)
	want := map[string]int{"accepted": 1, "duplicate": 1, "hash_mismatch": 1, "unknown_job": 1}

	foreseen := r.redrive(exitOK, "--reason", "unknown_job", "--since", "1h", "--dry-run")
	if diff := cmp.Diff(want, foreseen.Counts); diff != "" || !foreseen.DryRun {
		t.Errorf("foreseen (-want +got):\n%s", diff)
	}
	r.wantDeliveries(2)
	r.wantCount(0, `SELECT count(*) FROM agent.webhook_redrives`)

	driven := r.redrive(exitOK, "--reason", "unknown_job", "--since", "1h", "--yes", "--why", "late")
	if diff := cmp.Diff(want, driven.Counts); diff != "" || driven.DryRun {
		t.Errorf("driven (-want +got):\n%s", diff)
	}
	r.wantDeliveries(3)
	r.wantCount(4, `SELECT count(*) FROM agent.webhook_redrives WHERE outcome IS NOT NULL AND redriven_by <> ''`)
	r.wantCount(4, `SELECT count(*) FROM agent.webhook_drops WHERE reason = 'unknown_job'`)
	if text := *driven.Drops[0].Outcome + " " + *driven.Drops[1].Outcome + " " + *driven.Drops[2].Outcome; text != "accepted duplicate hash_mismatch" {
		t.Errorf("driven as %s, want the oldest first", text)
	}

	// What is settled stays out of the next round, so that a limit moves on.
	last := r.redrive(exitOK, "--reason", "unknown_job", "--limit", "1", "--dry-run")
	if !last.More || last.Counts["unknown_job"] != 1 {
		t.Errorf("the next round: %+v, want the one that is unknown still, and more", last)
	}
}

func TestRedriveStaysInItsSource(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	own := r.addJob(jobs.NewJob{Provider: "nylas", Secret: r.secret("its own secret"), Pins: []jobs.Identity{{Name: "grant_id", Value: "G5"}}})
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", "n1", 1)))
	r.ack(r.postNylas(providers.JobPath("nylas", own.ID), "its own secret", nylasMessage("G9", "n2", 1)))
	r.addSource("nylas", "other", "another secret")
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "other", Pins: []jobs.Identity{{Name: "grant_id", Value: "G9"}}})

	got := r.redrive(exitOK, "--provider", "nylas", "--yes", "--why", "to see")
	if diff := cmp.Diff(map[string]int{"unknown_job": 1, "job_mismatch": 1}, got.Counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.wantDeliveries(0)
}

func TestRedriveRefuses(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", "n1", 1)))
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, strings.Replace(nylasMessage("G1", "n1", 1), "Hello", "Bye", 1)))
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", "n2", 1)))
	if _, err := r.pool.Exec(t.Context(), `UPDATE agent.webhook_drops SET body = NULL, headers = NULL, count = 7 WHERE reason = 'unknown_job'`); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		r.dropID(drops.HashMismatch): "its key belongs to other content",
		r.dropID(drops.UnknownJob):   "the request was not kept",
		uuid.NewString():             "no such drop",
	} {
		got := r.redrive(exitFailed, id, "--why", "to see")
		if got.Counts["refused"] != 1 || got.Drops[0].Outcome != nil || !strings.Contains(got.Drops[0].Detail, want) {
			t.Errorf("%+v, want refused: %s", got, want)
		}
	}
	got := r.redrive(exitOK, "--provider", "nylas", "--yes", "--why", "to see")
	if got.Counts["refused"] != 2 || len(got.Counts) != 1 {
		t.Errorf("by a filter: %+v, want both refused", got.Counts)
	}
	r.wantDeliveries(1)
	r.wantCount(0, `SELECT count(*) FROM agent.webhook_redrives`)
}

func TestRedriveOneOfABatch(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	r.addSource("nylas", "main", nylasSecret)
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "account_id", Value: "A1"}}})
	delta := func(account, id string) string {
		return fmt.Sprintf(`{"date":1,"object":"message","type":"message.created","object_data":{"id":%q,"account_id":%q,"object":"message"}}`, id, account)
	}
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, `{"deltas":[`+delta("A1", "1")+`,`+delta("A2", "2")+`,`+delta("A3", "3")+`]}`))
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "account_id", Value: "A2"}}})
	// Without its key the delivery that was kept at once would be stored a second time, were it driven too.
	if _, err := r.pool.Exec(t.Context(), `DELETE FROM agent.idempotency_keys`); err != nil {
		t.Fatal(err)
	}
	got := r.redrive(exitOK, "--reason", "unknown_job", "--yes", "--why", "A2 was registered late")
	if diff := cmp.Diff(map[string]int{"accepted": 1, "unknown_job": 1}, got.Counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.wantDeliveries(2)
	r.wantDeliveries(1, feed.Filter{Bodies: [][]byte{[]byte(delta("A2", "2"))}})
}

func TestRedriveMalformed(t *testing.T) {
	t.Parallel()
	r := startGateway(t, func(c *configs.Config) { c.MaxInflatedBytes = 64 << 10 })
	nylasTown(r)
	large := zipped(t, strings.Replace(nylasMessage("G1", "n1", 1), "Hello", strings.Repeat("long ", 20<<10), 1))
	r.ack(r.post("/webhooks/nylas/sources/main", large, nylas.Sign(nylasSecret, large), http.Header{"Content-Encoding": {"gzip"}}))
	got := r.redrive(exitOK, r.dropID(drops.Malformed), "--why", "the limit was raised")
	if got.Counts["accepted"] != 1 {
		t.Errorf("%+v, want it accepted", got)
	}
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries WHERE body = $1 AND content_encoding = 'gzip'`, large)
}

func TestRedriveExitStatuses(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	keepDrops(t, pool, sampleDrop())
	long := strings.Repeat("x", drops.MaxWhy+1)
	for _, tc := range []struct {
		args   []string
		status int
	}{
		{[]string{}, exitUsage},
		{[]string{"--yes", "--why", "w"}, exitUsage},
		{[]string{"--limit", "5", "--yes", "--why", "w"}, exitUsage},
		{[]string{dropID, "--reason", "malformed", "--why", "w"}, exitUsage},
		{[]string{"--reason", "unknown_job", "--why", "w"}, exitUsage}, // neither looked at nor confirmed
		{[]string{"--reason", "unknown_job", "--yes"}, exitUsage},      // why?
		{[]string{"--reason", "unknown_job", "--yes", "--why", " "}, exitUsage},
		{[]string{"--reason", "unknown_job", "--yes", "--why", long}, exitUsage},
		{[]string{"--reason", "unknown_job", "--yes", "--why", "w", "--by", "a\x00b"}, exitUsage},
		{[]string{"--reason", "unknown_job", "--yes", "--dry-run"}, exitUsage},
		{[]string{"--reason", "hash_mismatch", "--dry-run"}, exitUsage},
		{[]string{"--reason", "duplicate", "--dry-run"}, exitUsage},
		{[]string{"not-an-id", "--why", "w"}, exitUsage},
		{[]string{dropID}, exitUsage},
		{[]string{"--reason", "malformed", "--dry-run"}, exitOK}, // none
		{[]string{dropID, "--dry-run"}, exitOK},
		{[]string{dropID, uuid.NewString(), "--dry-run"}, exitFailed},
	} {
		status, stdout, stderr := c.drops(append([]string{"redrive"}, tc.args...)...)
		if status != tc.status || (status == exitUsage) != (stdout == "" && strings.HasPrefix(stderr, "error: ")) && !strings.Contains(stderr, "no drops") {
			t.Errorf("drops redrive %.60q: status %d, want %d; stdout %q, stderr %q", tc.args, status, tc.status, stdout, stderr)
		}
	}
}

func TestRedriveTable(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	row := sampleDrop()
	row.Provider, row.RequestSeed = "nylas", bytes.Repeat([]byte{1}, 16)
	row.Body = []byte(nylasMessage("G9", "n1", 1))
	keepDrops(t, pool, row)
	status, stdout, stderr := c.drops("redrive", dropID, "--dry-run")
	if status != exitOK || !strings.Contains(stdout, "the source was removed; its row stands for 2 more drops whose requests were not kept") ||
		stderr != "nothing was changed; as things stand: 1 drops: 1 unknown_job\n" {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// A process that is killed between the store and its record leaves a redrive without an ending.
func TestRedriveAfterKill(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", "n1", 1)))
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G9"}}})
	id := r.dropID(drops.UnknownJob)
	for range 2 {
		if got := r.redrive(exitOK, id, "--why", "late"); got.Counts["accepted"] != 1 {
			t.Errorf("%+v, want it accepted", got)
		}
		if _, err := r.pool.Exec(t.Context(), `UPDATE agent.webhook_redrives SET outcome = NULL`); err != nil {
			t.Fatal(err)
		}
	}
	r.wantDeliveries(1)
	r.wantCount(2, `SELECT count(*) FROM agent.webhook_redrives`)
}
