package providers_test

import (
	"errors"
	"testing"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// dropped is a request as it is rebuilt from a kept drop: a source's secret verified it long ago.
func dropped(source *jobs.Source, body string) *providers.Request {
	return &providers.Request{
		Seed: providers.NewSeed(), Provider: "acme", Target: providers.Target{Source: source.Name},
		VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: source.ID},
		ReceivedAt: time.Now().Add(-time.Hour), ContentType: "application/json", Body: []byte(body),
	}
}

func TestReadAgainCountsNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	source := d.addSource(t, "main", nil, "s3cret")
	req := dropped(source, `[{"id":"1","tenant":"T1"},{"id":"2","tenant":"T2"}]`)
	d.addJob(jobs.Job{SourceID: source.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T2"}}})

	items := d.read(t, req)
	if len(items) != 2 || items[0].Reason != drops.UnknownJob || items[1].Reason != "" || items[1].Position != 1 {
		t.Errorf("read as %+v, want an unknown job and a delivery", items)
	}
	for _, series := range []string{"received_total", "recovered_total", "accepted_total"} {
		if n := d.metric(t, "gateway_deliveries_"+series, "acme"); n != 0 {
			t.Errorf("%s is %v after reading, want 0", series, n)
		}
	}
	if len(d.settler.work) != 0 {
		t.Error("reading settled something")
	}
}

func (d *door) read(t *testing.T, req *providers.Request) []providers.Item {
	t.Helper()
	items, err := d.gate.Read(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func TestRecoveredCount(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	source := d.addSource(t, "main", nil, "s3cret")
	job := d.addJob(jobs.Job{SourceID: source.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T2"}}})
	req := dropped(source, `[{"id":"1","tenant":"T1"},{"id":"2","tenant":"T2"},{"id":"3","tenant":"T2"}]`)

	admission, err := d.gate.Recover(req, d.read(t, req)[:2], time.Now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	<-admission.Ended
	if got := admission.Endings; len(got) != 2 || got[0].Dropped != drops.UnknownJob || got[1] != (providers.Ending{}) {
		t.Errorf("ended as %+v, want unknown_job and kept", got)
	}
	if work := d.settler.work; len(work) != 1 || work[0].Request != req || work[0].Items[1].Job != job.ID {
		t.Errorf("settled %+v", work)
	}
	for series, want := range map[string]float64{
		"received_total": 0, "recovered_total": 2, "accepted_total": 1, "failed_total": 0, "waiting": 0,
	} {
		if n := d.metric(t, "gateway_deliveries_"+series, "acme"); n != want {
			t.Errorf("%s is %v, want %v", series, n, want)
		}
	}
	if n := d.metric(t, "gateway_last_delivery_timestamp_seconds", "acme"); n != 0 {
		t.Error("the vendor seems to have sent what was taken up again")
	}
}

func TestRecoveryFails(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	source := d.addSource(t, "main", nil, "s3cret")
	d.settler.settle = func(*providers.Work, func([]providers.Ending)) error { return providers.ErrOverloaded }
	req := dropped(source, `{"id":"1","tenant":"T1"}`)
	_, err := d.gate.Recover(req, d.read(t, req), time.Now().Add(time.Second))
	if !errors.Is(err, providers.ErrOverloaded) {
		t.Errorf("%v, want ErrOverloaded", err)
	}
	if recovered, failed, waiting := d.metric(t, "gateway_deliveries_recovered_total", "acme"),
		d.metric(t, "gateway_deliveries_failed_total", "acme"), d.metric(t, "gateway_deliveries_waiting", "acme"); recovered != 1 || failed != 1 || waiting != 0 {
		t.Errorf("recovered %v, failed %v, waiting %v; want 1, 1, 0", recovered, failed, waiting)
	}
}

func TestPanicAnswers503(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
	if got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", "panic"); got.Code != 503 {
		t.Fatalf("status %d, want 503", got.Code)
	}
	if n := d.metric(t, "gateway_vendor_answers_total", "acme", "503"); n != 1 {
		t.Errorf("%v answers of 503, want 1", n)
	}
}
