package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/configs"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func TestOneEndingAtAnyScrape(t *testing.T) {
	t.Parallel()
	r := startGateway(t, func(c *configs.Config) { c.BatchDeliveries = 16 })
	slackTown(r)
	nylasTown(r)
	bodies := []func(n int) answer{
		func(n int) answer {
			return r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", fmt.Sprint(n), 1))
		},
		func(n int) answer {
			return r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G2", fmt.Sprint(n%7), 1))
		},
		func(n int) answer {
			return r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", fmt.Sprint(n), 1))
		},
		func(n int) answer {
			return r.postSlack("/webhooks/slack/sources/main", slackSecret, slackEvent("T1", fmt.Sprint("Ev", n%5), fmt.Sprint(n)))
		},
		func(n int) answer { return r.postSlack("/webhooks/slack/sources/main", slackSecret, "{") },
		func(n int) answer {
			return r.postSlack("/webhooks/slack/sources/main", "stranger", slackEvent("T1", "x", "x"))
		},
		func(n int) answer {
			return r.postNylas("/webhooks/nylas/sources/main", nylasSecret, deltas(3))
		},
	}
	done := make(chan struct{})
	var scraping sync.WaitGroup
	scrapes := 0
	scraping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.conserved()
				scrapes++
			}
		}
	})
	atOnce(16, func(i int) {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		for n := range 60 {
			send := bodies[rnd.IntN(len(bodies))]
			if got := send(i*1000 + n); got.status != 200 && got.status != 401 {
				t.Errorf("status %d %s", got.status, got.body)
			}
		}
	})
	close(done)
	scraping.Wait()
	if scrapes < 5 {
		t.Errorf("only %d scrapes", scrapes)
	}
	totals := r.conserved()
	if totals["waiting"] != 0 || totals["received"] < 500 {
		t.Errorf("at the end: %v", totals)
	}
	r.wantDeliveries(int(totals["accepted"]))
}

// conserved checks that received + recovered = accepted + dropped + failed + waiting for each provider, in one scrape.
func (r *running) conserved() map[string]float64 {
	r.t.Helper()
	sums := make(map[string]float64)
	all := r.scrape()
	for _, provider := range []string{"slack", "nylas"} {
		p := make(map[string]float64)
		for series, value := range all {
			name, ok := strings.CutPrefix(series, "gateway_deliveries_")
			if !ok || !strings.Contains(series, fmt.Sprintf("provider=%q", provider)) {
				continue
			}
			name, _, _ = strings.Cut(name, "{")
			p[strings.TrimSuffix(name, "_total")] += value
		}
		if p["received"]+p["recovered"] != p["accepted"]+p["dropped"]+p["failed"]+p["waiting"] {
			r.t.Errorf("%s does not add up: %v", provider, p)
		}
		for name, value := range p {
			sums[name] += value
		}
	}
	return sums
}

func TestForgeryFloodLookUps(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	one, _ := nylasTown(r)
	r.ack(r.postNylas(providers.JobPath("nylas", one.ID), nylasSecret, nylasMessage("G1", "n1", 1)))
	reads := func() float64 {
		return r.metric(`gateway_directory_refreshes_total{outcome="succeeded"}`) + r.metric(`gateway_directory_refreshes_total{outcome="failed"}`)
	}
	before, started := reads(), time.Now()
	body := nylasMessage("G1", "n2", 1)
	atOnce(50, func(i int) {
		for n := range 100 {
			path := providers.JobPath("nylas", one.ID)
			if n%2 == 0 {
				path = "/webhooks/nylas/" + uuid.NewString()
			}
			if got := r.postNylas(path, "forged", body); got.status != http.StatusUnauthorized {
				t.Errorf("status %d", got.status)
			}
		}
	})
	took := time.Since(started).Seconds()
	if n := reads() - before; n > 20*took+1 {
		t.Errorf("%v look-ups in %.1f s, want at most 20 a second", n, took)
	}
	r.wantCount(1, `SELECT (SELECT count(*) FROM agent.webhook_deliveries) + (SELECT count(*) FROM agent.webhook_drops)`)
	if n := r.metric(`gateway_requests_rejected_total{provider="nylas",reason="mismatch"}`); n != 5000 {
		t.Errorf("%v rejected, want 5000", n)
	}
}

func TestChangeSeenWithinSecond(t *testing.T) {
	t.Parallel()
	one := startGateway(t)
	two := startGatewayOn(t, one.config.DatabaseURL.Reveal())
	one.addSource("slack", "main", slackSecret)
	job := one.addJob(jobs.NewJob{Provider: "slack", Source: "main", Pins: []jobs.Identity{{Name: "team_id", Value: "T1"}}})

	// Another gateway's registration is known as soon as it is called for.
	two.ack(two.postSlack(providers.JobPath("slack", job.ID), slackSecret, slackEvent("T1", "Ev1", "hi")))
	one.ack(one.postSlack(providers.JobPath("slack", job.ID), slackSecret, slackEvent("T1", "Ev1", "hi")))
	two.wantDeliveries(1)

	if err := one.store.CloseJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	closed := time.Now()
	for n := 0; two.count(`SELECT count(*) FROM agent.webhook_drops WHERE reason = 'unknown_job'`) == 0; n++ {
		if time.Since(closed) > time.Second {
			t.Fatal("a job closed on one gateway still takes deliveries on another after a second")
		}
		two.ack(two.postSlack(providers.JobPath("slack", job.ID), slackSecret, slackEvent("T1", fmt.Sprint("Late", n), "hi")))
	}
}
