package providers_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// vector is a request that a vendor, or its SDK, publishes with the secret that signed it.
type vector struct {
	Name      string `json:"name"`
	Secret    string `json:"secret"`
	Timestamp string `json:"timestamp"`
	Signature string `json:"signature"`
	Body      string `json:"body"`
	Verifies  bool   `json:"verifies"`
}

func vectors(t *testing.T, provider string) (list []vector) {
	t.Helper()
	text, err := os.ReadFile(provider + "/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list) < 5 {
		t.Fatalf("%d vectors of %s, %v", len(list), provider, err)
	}
	return list
}

// send posts the vector as it was recorded.
func (v vector) send(d *door, path string) (status int, answer string) {
	header := http.Header{"Content-Type": {"application/json"}}
	if strings.Contains(v.Body, "command=") {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if v.Timestamp != "" {
		header.Set("X-Slack-Request-Timestamp", v.Timestamp)
		header.Set("X-Slack-Signature", v.Signature)
	} else {
		header.Set("X-Nylas-Signature", v.Signature)
	}
	got := d.send(path, "", v.Body, func(r *http.Request) { r.Header = header })
	return got.Code, got.Body.String()
}

func TestPublicVectors(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"nylas", "slack"} {
		for _, v := range vectors(t, provider) {
			t.Run(provider+"/"+v.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if v.Timestamp != "" {
						seconds, err := strconv.ParseInt(v.Timestamp, 10, 64)
						if err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Until(time.Unix(seconds, 0))) // the bubble's clock
					}
					d := newDoor(t, nylas.New(), slack.New())
					job := d.addJob(jobs.Job{Keyring: keyring(t, v.Secret)})
					job.Provider = provider
					path := "/webhooks/" + provider + "/" + job.ID.String()

					want := http.StatusUnauthorized
					if v.Verifies {
						want = http.StatusOK
					}
					status, answer := v.send(d, path)
					if status != want {
						t.Errorf("status %d, want %d", status, want)
					}
					v.wantWork(t, d, answer)

					if v.Timestamp == "" || !v.Verifies {
						return
					}
					time.Sleep(5 * time.Minute)
					if status, _ := v.send(d, path); status != http.StatusOK {
						t.Errorf("status %d five minutes later, want 200", status)
					}
					time.Sleep(time.Second)
					if status, _ := v.send(d, path); status != http.StatusUnauthorized {
						t.Errorf("status %d after the five minutes, want 401", status)
					}
				})
			})
		}
	}
}

// wantWork checks the outcome of a vector after its signature: nothing, a challenge's answer, a drop as
// malformed, or a delivery.
func (v vector) wantWork(t *testing.T, d *door, answer string) {
	t.Helper()
	var items []providers.Item
	for _, work := range d.settler.work {
		items = append(items, work.Items...)
	}
	switch {
	case !v.Verifies:
		if len(items) != 0 {
			t.Error("a request that proved nothing reached the gate")
		}
	case strings.Contains(v.Body, "url_verification"):
		if answer != "P7sFXA4o3HV2hTx4zb4zcQ9yrvuQs8pDh6EacOxmMRj0tJaXfQFF" || len(items) != 0 {
			t.Errorf("answered %q with %d deliveries", answer, len(items))
		}
	case strings.HasPrefix(v.Body, "{") || strings.Contains(v.Body, "command="):
		if len(items) != 1 || items[0].Reason != "" || items[0].VendorID == "" || answer != "" {
			t.Errorf("not one delivery: %+v", items)
		}
	default:
		if len(items) != 1 || items[0].Reason != drops.Malformed || answer != "" {
			t.Errorf("not malformed: %+v", items)
		}
	}
}
