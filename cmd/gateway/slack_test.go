package main

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/slack"
)

const asForm = "application/x-www-form-urlencoded"

// The samples are Slack's own: a work object's view_submission, and an organization's function_executed.
const (
	workObject = `{"type":"view_submission","team":{"id":"T1","domain":"d","enterprise_id":"E1","enterprise_name":"Acme Corp"},"user":{"id":"U1","team_id":"T1"},"api_app_id":"A1","trigger_id":"1.2.view","view":{"id":"V1","team_id":"E9","type":"entity_detail","hash":"h","app_id":"A1","app_installed_team_id":"E9"},"is_enterprise_install":false,"enterprise":{"id":"E1","name":"Acme Corp"}}`
	executed   = `{"token":"t","team_id":"E9","enterprise_id":"E9","api_app_id":"A1","event":{"type":"function_executed","function_execution_id":"Fx1","event_ts":"1","bot_access_token":"xwfp-1-22-abc"},"type":"event_callback","event_id":"Ev1","event_time":1}`
)

// slackDrop is a drop as an earlier build kept it.
func slackDrop(source jobs.StoredSource, reason drops.Reason, contentType, encoding, body string) drops.Kept {
	return drops.Kept{
		ID: uuid.Must(uuid.NewV7()), Reason: reason, Provider: "slack", VerifiedBy: "source", VerifierID: source.ID, PathSource: source.Name,
		RequestID: uuid.Must(uuid.NewV7()), RequestSeed: providers.NewSeed(), Count: 1, Headers: `[["user-agent","Slackbot"]]`,
		ContentType: contentType, ContentEncoding: encoding, Body: []byte(body), ReceivedAt: time.Now(),
	}
}

func TestSlackDropsOfBeforeComeBack(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	source := r.addSource("slack", "main", slackSecret, jobs.Identity{Name: "api_app_id", Value: "A1"})
	add := func(pin, value string) uuid.UUID {
		return r.addJob(jobs.NewJob{Provider: "slack", Source: "main", Pins: []jobs.Identity{{Name: pin, Value: value}}}).ID
	}
	installed, clicker, team := add("enterprise_id", "E9"), add("enterprise_id", "E1"), add("team_id", "T1")
	for _, tt := range []struct {
		name string
		drop drops.Kept
		job  uuid.UUID
	}{
		{"a work object", slackDrop(source, drops.UnknownJob, asForm, "", url.Values{"payload": {workObject}}.Encode()), installed},
		{"a function", slackDrop(source, drops.UnknownJob, "application/json", "", executed), installed},
		{"a semicolon", slackDrop(source, drops.Malformed, asForm, "", "command=%2Fx&text=a;b&team_id=T1&api_app_id=A1&trigger_id=1.1"), team},
		{"a percent sign", slackDrop(source, drops.Malformed, asForm, "", "command=%2Fx&text=100%&team_id=T1&api_app_id=A1&trigger_id=1.2"), team},
		{"a charset", slackDrop(source, drops.Malformed, "application/json", "UTF-8", slackEvent("T1", "Ev2", "hi")), team},
		{"gzip and identity", slackDrop(source, drops.Malformed, "application/json", "gzip, identity", string(zipped(t, slackEvent("T1", "Ev3", "hi")))), team},
	} {
		keepDrops(t, r.pool, tt.drop)
		got := r.redrive(exitOK, tt.drop.ID.String(), "--why", "an upgrade reads it")
		if got.Counts["accepted"] != 1 {
			t.Errorf("%s: %+v, want it accepted", tt.name, got)
		}
		r.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries d JOIN agent.webhook_redrives x ON x.delivery_id = d.id
			WHERE x.drop_id = $1 AND d.job_id = $2 AND coalesce(d.content_encoding, '') IN ('', 'gzip')`, tt.drop.ID, tt.job)
	}
	r.wantDeliveries(0, feed.Filter{Job: clicker})
}

func TestFunctionTokenIsNotStored(t *testing.T) {
	t.Parallel()
	captures := t.TempDir()
	r := startGateway(t, func(c *configs.Config) { c.CaptureDir = captures })
	r.addSource("slack", "main", slackSecret)
	r.addJob(jobs.NewJob{Provider: "slack", Source: "main", Pins: []jobs.Identity{{Name: "enterprise_id", Value: "E9"}}})
	send := func(body string, headers ...http.Header) {
		t.Helper()
		headers = append(headers, slack.Sign(slackSecret, time.Now(), []byte(body)))
		r.ack(r.post("/webhooks/slack/sources/main", []byte(body), headers...))
	}
	send(executed)
	send(strings.Replace(executed, "xwfp-1-22-abc", "xwfp-of-the-second-attempt", 1))
	send(string(zipped(t, executed)), http.Header{"Content-Encoding": {"gzip"}})
	if n := r.metric(`gateway_deliveries_dropped_total{provider="slack",reason="duplicate"}`); n != 2 {
		t.Errorf("%v duplicates, want 2", n)
	}
	unknown := strings.ReplaceAll(executed, "E9", "E8")
	send(unknown)
	send(string(zipped(t, unknown)), http.Header{"Content-Encoding": {"gzip"}})
	r.wantDeliveries(1, feed.Filter{Bodies: [][]byte{[]byte(strings.Replace(executed, "xwfp-1-22-abc", "", 1))}})
	r.wantCount(2, `SELECT count(*) FROM agent.webhook_drops WHERE body = $1 AND coalesce(content_encoding, '') = ''`,
		[]byte(strings.Replace(unknown, "xwfp-1-22-abc", "", 1)))
	for _, c := range waitForCaptures(t, captures, 5) {
		plain, err := c.Plain()
		if err != nil || bytes.Contains(plain, []byte("xwfp")) || !bytes.Contains(plain, []byte("bot_access_token")) {
			t.Errorf("captured %s, %v", plain, err)
		}
	}
}

func TestURLVerificationNoChallenge(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	r.addSource("slack", "main", slackSecret)
	r.addJob(jobs.NewJob{Provider: "slack", Source: "main", Fallback: true, Pins: []jobs.Identity{{Name: "team_id", Value: "T1"}}})
	for _, body := range []string{
		`{"token":"t","type":"url_verification"}`, `{"token":"t","type":"url_verification","challenge":"a\u0000b"}`,
		`{"token":"t","type":"url_verification","challenge":"` + strings.Repeat("x", 10<<10) + `"}`,
	} {
		if got := r.postSlack("/webhooks/slack/sources/main", slackSecret, body); got.status != http.StatusBadRequest || got.body != "" {
			t.Errorf("%.60s: answered %d %q, want 400", body, got.status, got.body)
		}
	}
	r.wantCount(0, `SELECT (SELECT count(*) FROM agent.webhook_deliveries) + (SELECT count(*) FROM agent.webhook_drops)`)
	for series, want := range map[string]float64{
		`gateway_deliveries_received_total{provider="slack"}`:       0,
		`gateway_vendor_answers_total{code="400",provider="slack"}`: 3,
	} {
		if got := r.metric(series); got != want {
			t.Errorf("%s %v, want %v", series, got, want)
		}
	}
}
