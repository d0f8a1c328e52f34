package jobs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestUnopenedSecretLoggedOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	other := NewStore(b.pool, mustKeys(t, 2))
	lost, err := other.AddSource(ctx, NewSource{Provider: "slack", Name: "lost", Secret: mustSecret(t, plain)})
	if err != nil {
		t.Fatal(err)
	}
	mixed := b.source(t, "slack", "mixed", "previous")
	if err := other.SetSecret(ctx, Verifier{BySource, mixed.ID}, mustSecret(t, plain), false); err != nil {
		t.Fatal(err)
	}
	moved := b.job(t, NewJob{Provider: "slack"})
	closed := b.job(t, NewJob{Provider: "slack"}) // it takes nothing, and is not counted
	b.exec(t, `UPDATE agent.provider_jobs SET secrets = (SELECT secrets[2:2] FROM agent.provider_sources WHERE id = $1),
		closed_at = CASE id WHEN $3 THEN now() END WHERE id IN ($2, $3)`, mixed.ID, moved.ID, closed.ID)

	var logged bytes.Buffer
	d := b.reads(t, slog.New(slog.NewJSONHandler(&logged, nil)))
	for range 2 { // a change of the row, and a reload, are no news
		b.exec(t, `UPDATE agent.provider_sources SET rotating_until = now()`)
		if err := d.read(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := d.read(ctx, time.Now().Add(reloadEvery)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(logged.String(), "secret cannot be opened"); n != 3 {
		t.Errorf("it is logged %d times for 3 rows:\n%s", n, logged.String())
	}
	if strings.Contains(logged.String(), plain) || !strings.Contains(logged.String(), mustKeys(t, 2).first.String()) {
		t.Errorf("the log shows the secret, or not the key's id:\n%s", logged.String())
	}
	if got := testutil.ToFloat64(d.metrics.unopened); got != 3 {
		t.Errorf("%v are counted", got)
	}

	s, _ := d.Current().SourceByID(lost.ID)
	if got := s.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: Sealed}) {
		t.Errorf("a sealed one: got %+v", got)
	}
	s, _ = d.Current().SourceByID(mixed.ID)
	if got := s.Keyring.Verify(func(text string) bool { return text == "previous" }); got != (Result{Matched: true, Previous: true}) {
		t.Errorf("a previous one that opens: got %+v", got)
	}
	if got := s.Keyring.Verify(func(string) bool { return false }); got != (Result{Doubt: Sealed}) {
		t.Errorf("none matches: got %+v", got)
	}
	j, _ := d.Current().Job("slack", moved.ID)
	if got := j.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: Sealed}) {
		t.Errorf("a secret of another row opens: got %+v", got)
	}

	// One that is set anew opens, and is news again if it is lost again.
	b.exec(t, `DELETE FROM agent.provider_sources WHERE id = $1`, lost.ID)
	for _, of := range []Verifier{{BySource, mixed.ID}, {ByJob, moved.ID}} {
		if err := b.SetSecret(ctx, of, mustSecret(t, "fresh"), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.read(ctx, time.Now().Add(2*reloadEvery)); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(d.metrics.unopened); got != 0 {
		t.Errorf("%v are counted after all were set anew", got)
	}
}

func TestDirectoryMetrics(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	reg := prometheus.NewPedanticRegistry()
	d := NewDirectory(b.pool, b.keys, slog.New(slog.DiscardHandler), reg)
	const help = `# HELP gateway_directory_jobs Jobs held in memory, closed ones included.
# TYPE gateway_directory_jobs gauge
gateway_directory_jobs %d
# HELP gateway_directory_refreshes_total Reads of the sources and jobs that changed, by outcome.
# TYPE gateway_directory_refreshes_total counter
gateway_directory_refreshes_total{outcome="failed"} %d
gateway_directory_refreshes_total{outcome="succeeded"} %d
# HELP gateway_directory_sources Sources held in memory.
# TYPE gateway_directory_sources gauge
gateway_directory_sources %d
# HELP gateway_directory_unopened_secrets Secrets that are set but cannot be opened with GATEWAY_SECRETS_KEY.
# TYPE gateway_directory_unopened_secrets gauge
gateway_directory_unopened_secrets 0
`
	compare := func(jobs, failed, succeeded, sources int) {
		t.Helper()
		err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(help, jobs, failed, succeeded, sources)),
			"gateway_directory_jobs", "gateway_directory_refreshes_total", "gateway_directory_sources", "gateway_directory_unopened_secrets")
		if err != nil {
			t.Error(err)
		}
	}
	compare(0, 0, 0, 0)
	if d.Loaded() {
		t.Error("it is loaded before it has read")
	}
	b.source(t, "slack", "main")
	b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")})
	b.job(t, NewJob{Provider: "slack"})
	err := d.read(t.Context(), time.Now())
	d.report(err)
	d.report(context.DeadlineExceeded)
	compare(2, 1, 1, 1)
	if n, err := testutil.GatherAndCount(reg, "gateway_directory_age_seconds"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestReadFailureLoggedOnce(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	d := NewDirectory(nil, nil, slog.New(slog.NewTextHandler(&logged, nil)), nil)
	for _, err := range []error{nil, nil, context.DeadlineExceeded, context.DeadlineExceeded, nil, nil} {
		d.report(err)
	}
	failed, again := strings.Count(logged.String(), "directory cannot be refreshed"), strings.Count(logged.String(), "directory refreshed again")
	if failed != 1 || again != 1 {
		t.Errorf("logged %d and %d times:\n%s", failed, again, logged.String())
	}
}
