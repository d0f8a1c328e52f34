package providers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// busy is a vendor whose bodies take their time to be taken apart, when they are large.
type busy struct {
	acme
	parsing *atomic.Int32
	release chan struct{}
}

func (b busy) Parse(contentType string, body []byte) ([]providers.Delivery, error) {
	if len(body) > 1000 {
		b.parsing.Add(1)
		defer b.parsing.Add(-1)
		<-b.release
		return []providers.Delivery{{VendorID: "large", Hash: "r1:00"}}, nil
	}
	return b.acme.Parse(contentType, body)
}

func pack(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

func gzipped(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }

// places is how many large bodies are taken apart at once.
func places() int32 { return int32(max(2, runtime.GOMAXPROCS(0))) }

func TestOneSignerHalfThePlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := busy{parsing: &atomic.Int32{}, release: make(chan struct{})}
		d := newDoor(t, vendor)
		path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		other := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "other")}).ID.String()
		bomb := pack(strings.Repeat(" ", 512<<10))
		var answers sync.Map
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { answers.Store(i, d.send(path, "s3cret", bomb, gzipped).Code) })
		}
		synctest.Wait()
		if n := vendor.parsing.Load(); n != places()/2 {
			t.Errorf("%d large bodies of one signer are taken apart at once, want %d", n, places()/2)
		}
		for i := range places() {
			all.Go(func() { answers.Store(20+i, d.send(other, "other", bomb, gzipped).Code) })
		}
		synctest.Wait()
		if n := vendor.parsing.Load(); n != places() {
			t.Errorf("%d large bodies of two signers, want %d", n, places())
		}
		if got := d.send(path, "s3cret", pack(`{"id":"2"}`), gzipped); got.Code != 200 {
			t.Errorf("a small one meanwhile: %d", got.Code)
		}
		time.Sleep(500 * time.Millisecond)
		close(vendor.release)
		all.Wait()
		answers.Range(func(_, code any) bool {
			if code != 200 {
				t.Errorf("answered %v", code)
			}
			return true
		})
	})
}

// A signer with many large bodies waiting delays another one's by one body, not by all of them.
func TestLargeBodiesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := busy{parsing: &atomic.Int32{}, release: make(chan struct{})}
		d := newDoor(t, vendor)
		var all sync.WaitGroup
		bomb := pack(strings.Repeat(" ", 512<<10))
		send := func(secret string, times int) (answered *atomic.Int32) {
			answered = &atomic.Int32{}
			path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, secret)}).ID.String()
			for range times {
				all.Go(func() { d.send(path, secret, bomb, gzipped); answered.Add(1) })
			}
			synctest.Wait()
			return answered
		}
		many, more := send("many", 20), send("more", 20)
		one := send("one", 1)
		for range places() + 3 { // those that are inside, and one of each signer
			vendor.release <- struct{}{}
			synctest.Wait()
		}
		if one.Load() != 1 {
			t.Errorf("the one waits behind the many: %d and %d of them were answered first", many.Load(), more.Load())
		}
		close(vendor.release)
		all.Wait()
	})
}

func TestLargeBodyNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := busy{parsing: &atomic.Int32{}, release: make(chan struct{})}
		d := newDoor(t, vendor)
		path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		bomb := pack(strings.Repeat(" ", 512<<10))
		var all sync.WaitGroup
		refused := atomic.Int32{}
		for range 20 {
			all.Go(func() {
				if d.send(path, "s3cret", bomb, gzipped).Code == 503 {
					refused.Add(1)
				}
			})
		}
		time.Sleep(1100 * time.Millisecond)
		if n := refused.Load(); n != 20-places()/2 {
			t.Errorf("%d were answered 503 in time, want all that wait", n)
		}
		close(vendor.release)
		all.Wait()
		received := d.metric(t, "gateway_deliveries_received_total", "acme")
		failed := d.metric(t, "gateway_deliveries_failed_total", "acme")
		accepted := d.metric(t, "gateway_deliveries_accepted_total", "acme")
		if failed != float64(20-places()/2) || received != failed+accepted {
			t.Errorf("received %v, failed %v, accepted %v", received, failed, accepted)
		}
		if got := d.send(path, "s3cret", bomb, gzipped); got.Code != 200 {
			t.Errorf("status %d once there is room again, want 200", got.Code)
		}
	})
}

// sliced is a vendor whose deliveries are parts of the body.
type sliced struct{ acme }

func (sliced) Parse(_ string, body []byte) ([]providers.Delivery, error) {
	return []providers.Delivery{{VendorID: "1", Hash: "r1:00", Body: body[:2:2]}}, nil
}

func TestPartReleasesBody(t *testing.T) {
	t.Parallel()
	var whole []byte
	d := newDoor(t, spying{func(body []byte) { whole = body }})
	path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
	if got := d.send(path, "s3cret", pack("ab"+strings.Repeat(" ", 1000)), gzipped); got.Code != 200 {
		t.Fatalf("status %d", got.Code)
	}
	part := d.settler.work[0].Items[0].Body
	if string(part) != "ab" || &part[0] == &whole[0] {
		t.Errorf("the part %q lies in the whole body", part)
	}
}

type spying struct{ saw func([]byte) }

func (spying) Name() string      { return "acme" }
func (spying) Headers() []string { return nil }
func (spying) Prove(h http.Header, now time.Time) (providers.Proof, error) {
	return acme{}.Prove(h, now)
}
func (s spying) Parse(contentType string, body []byte) ([]providers.Delivery, error) {
	s.saw(body)
	return sliced{}.Parse(contentType, body)
}

// slow is a body that arrives whole only after a while.
type slow struct {
	io.Reader
	after time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.after)
	s.after = 0
	return s.Reader.Read(p)
}
func (*slow) Close() error { return nil }

func TestSettleTimeStartsAfterBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		const body = `{"id":"1"}`
		d.settler.settle = func(w *providers.Work, done func([]providers.Ending)) error {
			go done([]providers.Ending{{Failed: !time.Now().Before(w.Deadline)}})
			return nil
		}
		got := d.send(path, "s3cret", body, func(r *http.Request) {
			r.Body = &slow{strings.NewReader(body), 1500 * time.Millisecond} // more than a second, which is for settling
		})
		if got.Code != 200 {
			t.Errorf("status %d for a body that was slow to arrive, want 200", got.Code)
		}
	})
}

func TestEndingAtDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		d.settler.settle = func(w *providers.Work, done func([]providers.Ending)) error {
			time.Sleep(time.Until(w.Deadline))
			done(endings(w))
			return nil
		}
		for n := range 40 {
			if got := d.send(path, "s3cret", fmt.Sprintf(`{"id":"%d"}`, n)); got.Code != 200 {
				t.Fatalf("status %d for what is settled, want 200", got.Code)
			}
		}
	})
}

func TestVendorHangsUp(t *testing.T) {
	t.Parallel()
	gone, hangUp := context.WithCancel(context.Background())
	hangUp()
	hungUp := func(r *http.Request) { *r = *r.WithContext(gone) }
	d := newDoor(t)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "old")})
	path := "/webhooks/acme/" + job.ID.String()

	d.send(path, "forged", `{"id":"1"}`, hungUp)
	if n := d.metric(t, "gateway_requests_rejected_total", "acme", "mismatch"); n != 1 {
		t.Errorf("%v mismatches, want 1: PostgreSQL was there to confirm it", n)
	}
	d.onRefresh = func(d *directory) error {
		fresh := *job
		fresh.Keyring = keyring(t, "new", "old")
		d.mu.Lock()
		d.jobs[job.ID] = &fresh
		d.mu.Unlock()
		return nil
	}
	d.send(path, "new", `{"id":"1"}`, hungUp)
	if n := d.metric(t, "gateway_deliveries_accepted_total", "acme"); n != 1 {
		t.Errorf("%v accepted, want 1", n)
	}
}

func TestProbeURLs(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, path := range []string{"not-an-id", uuid.Nil.String(), "sources/.hidden"} {
		for _, secret := range []string{"", "other"} {
			if got := d.send("/webhooks/acme/"+path, secret, "probe=1", contentType("probe")); got.Code != 401 {
				t.Errorf("%s, secret %q: status %d, want 401", path, secret, got.Code)
			}
		}
	}
}

func TestRepeatedHeaders(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
	d.send(path, "s3cret", `{"id":"1"}`, func(r *http.Request) {
		for n := range 1000 {
			r.Header.Add("X-Acme-Try", fmt.Sprint(n))
		}
	})
	kept := d.settler.work[0].Request.Headers
	if len(kept) < 1 || len(kept) > 8 || kept[0].Value != "0" {
		t.Errorf("%d lines of one header are kept", len(kept))
	}
}
