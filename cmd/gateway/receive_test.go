package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

const (
	slackSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	nylasSecret = "UfZWFrkjsbg5bxLbax-y"
)

// slackEvent is an event_callback as Slack sends it, for a team.
func slackEvent(team, id, text string) string {
	return fmt.Sprintf(`{"token":"t","team_id":%[1]q,"context_team_id":%[1]q,"api_app_id":"A1","type":"event_callback","event_id":%[2]q,`+
		`"event_time":1700000000,"authorizations":[{"enterprise_id":null,"team_id":%[1]q,"user_id":"U1","is_bot":true,"is_enterprise_install":false}],`+
		`"event":{"type":"message","channel":"C1","user":"U2","text":%[3]q,"ts":"1700000000.000100","event_ts":"1700000000.000100"}}`, team, id, text)
}

// nylasMessage is a message.created notification as Nylas sends it, for a grant.
func nylasMessage(grant, id string, attempt int) string {
	return fmt.Sprintf(`{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":%q,"time":1723821985,`+
		`"webhook_delivery_attempt":%d,"data":{"application_id":"app-1","object":{"grant_id":%q,"id":"m1","object":"message","subject":"Hello"}}}`,
		id, attempt, grant)
}

// slackTown is a Slack application with two teams.
func slackTown(r *running) (one, two jobs.StoredJob) {
	r.addSource("slack", "main", slackSecret, jobs.Identity{Name: "api_app_id", Value: "A1"})
	one = r.addJob(jobs.NewJob{Provider: "slack", Source: "main", Pins: []jobs.Identity{{Name: "team_id", Value: "T1"}}})
	two = r.addJob(jobs.NewJob{Provider: "slack", Source: "main", Pins: []jobs.Identity{{Name: "team_id", Value: "T2"}}})
	return one, two
}

func nylasTown(r *running) (one, two jobs.StoredJob) {
	r.addSource("nylas", "main", nylasSecret, jobs.Identity{Name: "application_id", Value: "app-1"})
	one = r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G1"}}})
	two = r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G2"}}})
	return one, two
}

func TestTwentySendsOneDelivery(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		provider string
		send     func(*running) answer
	}{
		{"slack", func(r *running) answer {
			return r.postSlack("/webhooks/slack/sources/main", slackSecret, slackEvent("T1", "Ev1", "hi"))
		}},
		{"nylas", func(r *running) answer {
			return r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", "n1", 1))
		}},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			t.Parallel()
			r := startGateway(t)
			slackTown(r)
			nylasTown(r)
			atOnce(20, func(int) { r.ack(tt.send(r)) })
			r.wantDeliveries(1)
			if n := r.metric(`gateway_deliveries_dropped_total{provider="` + tt.provider + `",reason="duplicate"}`); n != 19 {
				t.Errorf("%v duplicates, want 19", n)
			}
			if n := r.metric(`gateway_deliveries_accepted_total{provider="` + tt.provider + `"}`); n != 1 {
				t.Errorf("%v accepted, want 1", n)
			}
		})
	}
}

func TestSameIDOtherContent(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	one, _ := slackTown(r)
	other := slackEvent("T1", "Ev1", "something else")
	r.ack(r.postSlack(providers.JobPath(one.Provider, one.ID), slackSecret, slackEvent("T1", "Ev1", "hi")))
	r.ack(r.postSlack(providers.JobPath(one.Provider, one.ID), slackSecret, other))
	r.wantDeliveries(1)
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_drops WHERE reason = 'hash_mismatch' AND body = $1`, []byte(other))
}

func TestRetriesAreDuplicates(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	slackTown(r)
	nylasTown(r)
	for attempt := 1; attempt <= 3; attempt++ {
		r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", "n1", attempt)))
	}
	first := slackEvent("T1", "Ev1", "hi")
	retry := strings.NewReplacer("1700000000,", "1700000060,", `"U1"`, `"U9"`, `"token":"t"`, `"token":"other"`).Replace(first)
	r.ack(r.postSlack("/webhooks/slack/sources/main", slackSecret, first))
	r.ack(r.postSlack("/webhooks/slack/sources/main", slackSecret, retry))
	if first == retry {
		t.Fatal("the retry does not differ")
	}
	r.wantDeliveries(2)
	for series, want := range map[string]float64{
		`gateway_deliveries_dropped_total{provider="nylas",reason="duplicate"}`:     2,
		`gateway_deliveries_dropped_total{provider="slack",reason="duplicate"}`:     1,
		`gateway_deliveries_dropped_total{provider="nylas",reason="hash_mismatch"}`: 0,
		`gateway_deliveries_dropped_total{provider="slack",reason="hash_mismatch"}`: 0,
	} {
		if got := r.metric(series); got != want {
			t.Errorf("%s %v, want %v", series, got, want)
		}
	}
}

func TestOtherTenantDropped(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	slackJob, _ := slackTown(r)
	nylasJob, _ := nylasTown(r)
	r.ack(r.postSlack(providers.JobPath(slackJob.Provider, slackJob.ID), slackSecret, slackEvent("T2", "Ev1", "hi")))
	r.ack(r.postSlack("/webhooks/slack/sources/main", slackSecret, slackEvent("T9", "Ev2", "hi")))
	r.ack(r.postNylas(providers.JobPath(nylasJob.Provider, nylasJob.ID), nylasSecret, nylasMessage("G2", "n1", 1)))
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", "n2", 1)))
	r.wantDeliveries(0)
	for _, provider := range []string{"slack", "nylas"} {
		r.wantCount(1, `SELECT count(*) FROM agent.webhook_drops WHERE provider = $1 AND reason = 'job_mismatch' AND path_job IS NOT NULL`, provider)
		r.wantCount(1, `SELECT count(*) FROM agent.webhook_drops WHERE provider = $1 AND reason = 'unknown_job' AND path_source = 'main'`, provider)
	}
}

func TestUnknownJobVendorOrStranger(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	body := nylasMessage("G1", "n1", 1)
	path := "/webhooks/nylas/" + uuid.NewString()
	if got := r.postNylas(path, nylasSecret, body); got.status != 401 {
		t.Errorf("without any source: %d, want 401", got.status)
	}
	r.wantCount(0, `SELECT count(*) FROM agent.webhook_drops`)
	nylasTown(r)
	r.ack(r.postNylas(path, nylasSecret, body))
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_drops WHERE reason = 'unknown_job' AND body = $1 AND path_job::text = $2 AND headers IS NOT NULL`,
		[]byte(body), strings.TrimPrefix(path, "/webhooks/nylas/"))
	r.wantDeliveries(0)
}
