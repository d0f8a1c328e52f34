package main

import (
	"strings"
	"testing"

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
			r.wantDeliveries(tt.rows)
		})
	}
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
