package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

func packed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

func gzipped() http.Header { return http.Header{"Content-Encoding": {"gzip"}} }

// deltas is a batch of Nylas's API v2.
func deltas(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"date":1700000000,"object":"message","type":"message.created","object_data":{"id":"m%d","object":"message","account_id":"acc"}}`, i))
	}
	return `{"deltas":[` + strings.Join(list, ",") + `]}`
}

// hostileBody is a signed body that no honest vendor sends, or seldom.
type hostileBody struct {
	name     string
	provider string
	body     []byte
	headers  http.Header
	status   int
	ending   string // empty: nothing is stored
}

func hostileBodies() []hostileBody {
	event := slackEvent("T1", "%s", "hi")
	message := func(id string) string { return nylasMessage("G1", id, 1) }
	big := strings.Replace(message("big"), "Hello", strings.Repeat("x", 1<<20), 1)
	const accepted, malformed, mismatch = "accepted", "malformed", "job_mismatch"
	return []hostileBody{
		{"1 MB", "nylas", []byte(big), nil, 200, accepted},
		{"over 4 MiB", "nylas", bytes.Repeat([]byte(" "), 4<<20+1), nil, 413, ""},
		{"20,000 deltas", "nylas", []byte(deltas(20_000)), nil, 200, malformed},
		{"millions of values", "nylas", packed("[" + strings.Repeat("1,", 2_000_000) + "1]"), gzipped(), 200, malformed},
		{"100,000 deep", "nylas", []byte(strings.Repeat("[", 100_000)), nil, 200, malformed},
		{"9,000 deep", "nylas", []byte(strings.Replace(message("deep"), `"Hello"`, strings.Repeat("[", 9000)+strings.Repeat("]", 9000), 1)), nil, 200, accepted},
		{"invalid UTF-8 in a string", "nylas", []byte(strings.Replace(message("utf8"), "Hello", "\xff\xfe", 1)), nil, 200, accepted},
		{"an escaped NUL", "nylas", []byte(strings.Replace(message("nul"), "Hello", `\u0000`, 1)), nil, 200, accepted},
		{"an escaped NUL in the id and the type", "nylas", []byte(strings.Replace(message(`a\u0000b`), "message.created", `x\u0000`, 1)), nil, 200, accepted},
		{"a raw NUL", "nylas", []byte(strings.Replace(message("rawnul"), "Hello", "\x00", 1)), nil, 200, malformed},
		{"a repeated member", "nylas", []byte(strings.Replace(message("rep"), `"id":"m1"`, `"id":"m1","id":"m2"`, 1)), nil, 200, accepted},
		{"a repeated grant", "nylas", []byte(strings.Replace(message("rep2"), `"grant_id":"G1"`, `"grant_id":"G1","grant_id":"G2"`, 1)), nil, 200, malformed},
		{"a grant that is a number", "nylas", []byte(strings.Replace(message("num"), `"grant_id":"G1"`, `"grant_id":1`, 1)), nil, 200, malformed},
		{"an id of 10,000 characters", "nylas", []byte(message(strings.Repeat("i", 10_000))), nil, 200, accepted},
		{"empty", "nylas", nil, nil, 200, malformed},
		{"not JSON", "nylas", []byte("test123"), nil, 200, malformed},
		{"gzip", "nylas", packed(message("zip")), gzipped(), 200, accepted},
		{"gzip bomb", "nylas", packed(strings.Repeat(" ", 64<<20)), gzipped(), 200, malformed},
		{"gzip without its header", "nylas", packed(message("zip2")), nil, 200, malformed},
		{"another encoding", "nylas", []byte(message("br")), http.Header{"Content-Encoding": {"br"}}, 200, malformed},
		{"a wrong content type", "nylas", []byte(message("ct")), http.Header{"Content-Type": {"text/plain"}}, 200, accepted},
		{"no content type", "nylas", []byte(message("noct")), http.Header{"Content-Type": nil}, 200, accepted},
		{"invalid UTF-8 in headers", "nylas", []byte(message("hdr")), http.Header{"Content-Type": {"text/\xff"}, "User-Agent": {"\xfe\xff"}}, 200, accepted},
		{"no grant on a job's URL", "nylas", []byte(`{"type":"booking.created","id":"b1","data":{"object":{}}}`), nil, 200, mismatch},
		{"a bare number", "nylas", []byte("1"), nil, 200, mismatch},
		{"null", "nylas", []byte("null"), nil, 200, mismatch},
		{"not JSON to Slack", "slack", []byte("test-body"), nil, 200, malformed},
		{"JSON as a form", "slack", fmt.Appendf(nil, event, "Ev1"), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 200, accepted},
		{"a null event", "slack", []byte(`{"type":"event_callback","team_id":"T1","event_id":"Ev2","event":null}`), nil, 200, accepted},
		{"an unknown type", "slack", []byte(`{"type":"brand_new","team_id":"T1"}`), nil, 200, accepted},
		{"two payloads", "slack", []byte("payload=1&payload=2"), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 200, malformed},
	}
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	one, _ := nylasTown(r)
	slackJob, _ := slackTown(r)
	nylasPath, slackPath := providers.JobPath("nylas", one.ID), providers.JobPath("slack", slackJob.ID)
	for _, tt := range hostileBodies() {
		t.Run(tt.name, func(t *testing.T) {
			path, sign := nylasPath, nylas.Sign(nylasSecret, tt.body)
			if tt.provider == "slack" {
				path, sign = slackPath, slack.Sign(slackSecret, time.Now(), tt.body)
			}
			before := r.endings(tt.provider)
			got := r.post(path, tt.body, sign, tt.headers)
			if got.status != tt.status || got.body != "" {
				t.Errorf("answered %d %q, want %d and no body", got.status, got.body, tt.status)
			}
			after := r.endings(tt.provider)
			for ending := range after {
				want := 0.0
				if ending == tt.ending {
					want = 1
				}
				if grown := after[ending] - before[ending]; grown != want {
					t.Errorf("%v more %s, want %v", grown, ending, want)
				}
			}
		})
	}
}

// endings counts a provider's deliveries by how they ended.
func (r *running) endings(provider string) map[string]float64 {
	r.t.Helper()
	all := r.scrape()
	p := fmt.Sprintf("{provider=%q", provider)
	found := map[string]float64{
		"accepted": all["gateway_deliveries_accepted_total"+p+"}"],
		"failed":   all["gateway_deliveries_failed_total"+p+"}"],
	}
	for _, reason := range []string{"duplicate", "hash_mismatch", "unknown_job", "job_mismatch", "malformed"} {
		found[reason] = all[fmt.Sprintf("gateway_deliveries_dropped_total%s,reason=%q}", p, reason)]
	}
	return found
}
