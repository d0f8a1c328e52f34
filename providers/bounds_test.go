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

func TestLargeBodiesAreTakenApartAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := busy{parsing: &atomic.Int32{}, release: make(chan struct{})}
		d := newDoor(t, vendor)
		path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		bomb := pack(strings.Repeat(" ", 512<<10))
		var answers sync.Map
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { answers.Store(i, d.send(path, "s3cret", bomb, gzipped).Code) })
		}
		synctest.Wait()
		if n, most := vendor.parsing.Load(), int32(max(2, runtime.GOMAXPROCS(0))); n < 2 || n > most {
			t.Errorf("%d large bodies are taken apart at once, want 2 to %d", n, most)
		}
		if got := d.send(path, "s3cret", pack(`{"id":"2"}`), gzipped); got.Code != 200 {
			t.Errorf("a small one meanwhile: %d", got.Code)
		}
		time.Sleep(500 * time.Millisecond)
		close(vendor.release)
		all.Wait()
		for i := range 20 {
			if code, _ := answers.Load(i); code != 200 {
				t.Errorf("answered %v", code)
			}
		}
	})
}

func TestALargeBodyThatFindsNoRoomInTimeHasFailed(t *testing.T) {
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
		waiting := int32(20) - refused.Load()
		if waiting < 2 || waiting > int32(max(2, runtime.GOMAXPROCS(0))) {
			t.Errorf("%d were not answered in time", waiting)
		}
		close(vendor.release)
		all.Wait()
		received := d.metric(t, "gateway_deliveries_received_total", "acme")
		failed := d.metric(t, "gateway_deliveries_failed_total", "acme")
		accepted := d.metric(t, "gateway_deliveries_accepted_total", "acme")
		if failed != float64(20-waiting) || received != failed+accepted {
			t.Errorf("received %v, failed %v, accepted %v", received, failed, accepted)
		}
	})
}

// sliced is a vendor whose deliveries are parts of the body.
type sliced struct{ acme }

func (sliced) Parse(_ string, body []byte) ([]providers.Delivery, error) {
	return []providers.Delivery{{VendorID: "1", Hash: "r1:00", Body: body[:2:2]}}, nil
}

func TestAPartOfAnInflatedBodyDoesNotHoldTheWhole(t *testing.T) {
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

func TestTheTimeToSettleBeginsWhenTheBodyIsWhole(t *testing.T) {
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

func TestWhatEndsAtTheLastInstantIsAcknowledged(t *testing.T) {
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

func TestAVendorThatHangsUpChangesNothing(t *testing.T) {
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

func TestAProbeIsAnsweredOnWellFormedURLsAlone(t *testing.T) {
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

// counting counts how often a signature is computed.
type counting struct {
	acme
	computed *atomic.Int32
}

func (c counting) Prove(h http.Header, now time.Time) (providers.Proof, error) {
	proof, err := c.acme.Prove(h, now)
	return countingProof{proof, c.computed}, err
}

type countingProof struct {
	providers.Proof
	computed *atomic.Int32
}

func (p countingProof) Verify(secret string, body []byte) bool {
	p.computed.Add(1)
	return p.Proof.Verify(secret, body)
}

func TestAForgeryCostsOneSignaturePerSecret(t *testing.T) {
	t.Parallel()
	computed := &atomic.Int32{}
	d := newDoor(t, counting{computed: computed})
	for _, name := range []string{"a", "b", "c"} {
		d.addSource(t, name, nil, name+"1", name+"2")
	}
	if got := d.send("/webhooks/acme/"+uuid.NewString(), "forged", "{}"); got.Code != 401 {
		t.Errorf("status %d", got.Code)
	}
	if n := computed.Load(); n != 6 {
		t.Errorf("%d signatures for six secrets that did not change", n)
	}
	d.onRefresh = func(d *directory) error { d.addSource(t, "d", nil, "d1"); return nil }
	if got := d.send("/webhooks/acme/"+uuid.NewString(), "d1", "{}"); got.Code != 200 {
		t.Errorf("status %d for a source that was added meanwhile, want 200", got.Code)
	}
	if n := computed.Load(); n != 6+6+1 {
		t.Errorf("%d signatures, want seven more", n)
	}
}

// hashing is a vendor whose signatures take their time, over large bodies.
type hashing struct {
	acme
	at      *atomic.Int32
	release chan struct{}
}

func (h hashing) Prove(header http.Header, now time.Time) (providers.Proof, error) {
	proof, err := h.acme.Prove(header, now)
	return hashingProof{proof, h}, err
}

type hashingProof struct {
	providers.Proof
	hashing
}

func (p hashingProof) Verify(secret string, body []byte) bool {
	if len(body) > 1000 {
		p.at.Add(1)
		defer p.at.Add(-1)
		<-p.release
		return false // no forgery's signature is right
	}
	return p.Proof.Verify(secret, body)
}

func TestLargeForgeriesThatManySecretsAreTriedOnDoNotTakeEveryProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := hashing{at: &atomic.Int32{}, release: make(chan struct{})}
		d := newDoorWithin(t, 1<<20, vendor)
		for n := range jobs.MaxTried {
			d.addSource(t, fmt.Sprint(n), nil, "1", "2", "3", "4", "5", "6", "7", "8")
		}
		job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
		var all sync.WaitGroup
		overloaded := atomic.Int32{}
		for range 10 {
			all.Go(func() {
				if d.send("/webhooks/acme/"+uuid.NewString(), "forged", strings.Repeat(" ", 60<<10)).Code == 503 {
					overloaded.Add(1)
				}
			})
		}
		synctest.Wait()
		most := int32(max(1, runtime.GOMAXPROCS(0)/2))
		if n := vendor.at.Load(); n < 1 || n > most {
			t.Errorf("%d are hashed at once, want at most %d", n, most)
		}
		if got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", `{"id":"1"}`); got.Code != 200 {
			t.Errorf("a delivery meanwhile: %d", got.Code)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := overloaded.Load(); n < 10-most {
			t.Errorf("%d are told to come again, want all that wait", n)
		}
		close(vendor.release)
		all.Wait()
	})
}

func TestRepeatedHeaderLinesAreNotAllKept(t *testing.T) {
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
