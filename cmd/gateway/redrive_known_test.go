package main

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
)

// A key is kept for a day and a drop for two weeks: where the key is not there, the inbox itself is asked.
func TestRedriveWithoutKey(t *testing.T) {
	t.Parallel()
	const path = "/webhooks/nylas/sources/main"
	grant := []jobs.Identity{{Name: "grant_id", Value: "G9"}}
	late := func(r *running) *jobs.StoredJob {
		job := r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: grant})
		return &job
	}
	for _, tt := range []struct {
		name string
		// arrange leaves one drop to be driven, and no key.
		arrange func(r *running) (dropID string)
		want    string
		rows    int
	}{
		{"young drop", func(r *running) string {
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 1)))
			late(r)
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 2)))
			return r.dropID(drops.UnknownJob)
		}, "duplicate", 1},
		{"other attempt driven later", func(r *running) string {
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 1)))
			first := r.dropID(drops.UnknownJob)
			r.exec(`UPDATE agent.webhook_drops SET received_at = received_at - interval '10 days'`)
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 2)))
			r.exec(`UPDATE agent.webhook_drops SET received_at = received_at - interval '10 days' WHERE id <> $1`, first)
			late(r)
			r.redrive(exitOK, first, "--why", "late")
			return r.text(`SELECT id::text FROM agent.webhook_drops WHERE id <> $1`, first)
		}, "duplicate", 1},
		{"driven before, to another job", func(r *running) string {
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 1)))
			job := late(r)
			id := r.dropID(drops.UnknownJob)
			r.redrive(exitOK, id, "--why", "late")
			r.exec(`UPDATE agent.webhook_redrives SET outcome = NULL`) // it was killed before it wrote that down
			if err := r.store.CloseJob(r.t.Context(), job.ID); err != nil {
				r.t.Fatal(err)
			}
			late(r)
			return id
		}, "duplicate", 1},
		{"same id beyond any repeat", func(r *running) string {
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 1)))
			r.exec(`UPDATE agent.webhook_drops SET received_at = received_at - interval '3 days'`)
			late(r)
			r.ack(r.postNylas(path, nylasSecret, nylasMessage("G9", "n1", 1)))
			return r.dropID(drops.UnknownJob)
		}, "accepted", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := startGateway(t)
			nylasTown(r)
			id := tt.arrange(r)
			r.exec(`DELETE FROM agent.idempotency_keys`)
			foreseen := r.redrive(exitOK, id, "--dry-run")
			if *foreseen.Drops[0].Outcome != tt.want {
				t.Errorf("foreseen: %s, want %s", *foreseen.Drops[0].Outcome, tt.want)
			}
			got := r.redrive(exitOK, id, "--why", "late")
			if *got.Drops[0].Outcome != tt.want || (tt.want == "duplicate") != strings.Contains(got.Drops[0].Detail, "in the inbox already as ") {
				t.Errorf("driven: %s, %s; want %s", *got.Drops[0].Outcome, got.Drops[0].Detail, tt.want)
			}
			r.wantCount(tt.rows, `SELECT count(*) FROM agent.webhook_deliveries`)
		})
	}
}

func TestTwoRedrivesAtOnce(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	nylasTown(r)
	r.ack(r.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G9", "n1", 1)))
	r.addJob(jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G9"}}})
	plans := make([]redrivePlan, 3)
	drivers := make([]*redriver, len(plans))
	for i := range plans {
		d, err := newRedriver(t.Context(), r.pool, r.config, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer d.stop()
		if err := d.fill(t.Context(), &plans[i], drops.Filter{Limit: 10}); err != nil {
			t.Fatal(err)
		}
		drivers[i] = d
	}
	var all sync.WaitGroup
	for i, d := range drivers {
		all.Go(func() {
			if err := d.drive(t.Context(), &plans[i], "sam", "late"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var said []string
	for _, p := range plans {
		said = append(said, string(p.steps[0].outcome))
	}
	if slices.Sort(said); !slices.Equal(said, []string{"accepted", "duplicate", "duplicate"}) {
		t.Errorf("they say %v, want one accepted", said)
	}
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries`)
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_redrives WHERE outcome = 'accepted' AND delivery_id IS NOT NULL`)
	r.wantCount(2, `SELECT count(*) FROM agent.webhook_redrives WHERE outcome = 'duplicate' AND delivery_id IS NULL`)
}

func (r *running) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) text(sql string, args ...any) (text string) {
	r.t.Helper()
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&text); err != nil {
		r.t.Fatal(err)
	}
	return text
}
