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

// What a refusal costs must not tell whether an id is known: as many signatures are computed in each case.
func TestForgeryCost(t *testing.T) {
	t.Parallel()
	computed := &atomic.Int32{}
	d := newDoor(t, counting{computed: computed})
	forge := func(path string) int32 {
		before := computed.Load()
		if got := d.send("/webhooks/acme/"+path, "forged", "{}"); got.Code != 401 {
			t.Errorf("%s: status %d", path, got.Code)
		}
		return computed.Load() - before
	}
	own := d.addJob(jobs.Job{Keyring: keyring(t, "own")}).ID.String()
	if known, unknown := forge(own), forge(uuid.NewString()); known != 1 || unknown != 1 {
		t.Errorf("without a source, known: %d signatures, unknown: %d, want 1 each", known, unknown)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		d.addSource(t, name, nil, name)
	}
	for _, path := range []string{own, uuid.NewString(), "not-an-id", "sources/a", "sources/nobody"} {
		if n := forge(path); n != 1+4 {
			t.Errorf("%s: %d signatures for one secret and four of sources, want 5", path, n)
		}
	}
	d.onRefresh = func(d *directory) error { d.addSource(t, "e", nil, "e"); return nil }
	before := computed.Load()
	if got := d.send("/webhooks/acme/"+uuid.NewString(), "e", "{}"); got.Code != 200 {
		t.Errorf("status %d for a source that was added meanwhile, want 200", got.Code)
	}
	if n := computed.Load() - before; n != 1+4+1 {
		t.Errorf("%d signatures for a source that was added meanwhile, want 6", n)
	}
}

// A stranger's body is hashed with every secret of every source. What that takes is bounded in the whole process, and
// nothing honest waits for it.
func TestHashingBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		computed := &atomic.Int32{}
		d := newDoorWithin(t, 1<<20, counting{computed: computed})
		for n := range jobs.MaxTried {
			d.addSource(t, fmt.Sprint(n), nil, "1", "2", "3", "4", "5", "6", "7", "8")
		}
		own := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		large := strings.Repeat(" ", 60<<10) // 30 MiB with 512 secrets
		codes := func() map[int]int {
			found := make(map[int]int)
			for range 10 {
				found[d.send("/webhooks/acme/"+uuid.NewString(), "forged", large).Code]++
			}
			return found
		}
		if got := codes(); got[401] != 3 || got[503] != 7 {
			t.Errorf("10 forgeries at once: %v, want three 401 and seven 503", got)
		}
		if n := computed.Load(); n > 10+3*512 {
			t.Errorf("%d signatures were computed", n)
		}
		if n := d.metric(t, "gateway_requests_rejected_total", "acme", "overloaded"); n != 7 {
			t.Errorf("%v are counted as overloaded, want 7", n)
		}
		if got := d.send("/webhooks/acme/"+own, "forged", "{}"); got.Code != 503 {
			t.Errorf("a forgery for a known id meanwhile: %d, want 503 as for an unknown one", got.Code)
		}
		if got := d.send("/webhooks/acme/"+own, "s3cret", `{"id":"1"}`); got.Code != 200 {
			t.Errorf("a delivery meanwhile: %d", got.Code)
		}
		time.Sleep(time.Second)
		if got := codes(); got[401] != 2 {
			t.Errorf("10 forgeries a second later: %v, want two 401", got)
		}
	})
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
	if len(body) > 256<<10 {
		p.at.Add(1)
		defer p.at.Add(-1)
		<-p.release
	}
	return p.Proof.Verify(secret, body)
}

func TestLargeBodiesHashedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := hashing{at: &atomic.Int32{}, release: make(chan struct{})}
		d := newDoorOf(t, providers.Limits{Body: 1 << 20, BodyBudget: 32 << 20, Read: time.Second, Settle: time.Second}, vendor)
		path := "/webhooks/acme/" + d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")}).ID.String()
		var all sync.WaitGroup
		refused := atomic.Int32{}
		for range 10 {
			all.Go(func() {
				if d.send(path, "s3cret", strings.Repeat(" ", 300<<10)).Code == 503 {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		most := int32(max(1, runtime.GOMAXPROCS(0)/2))
		if n := vendor.at.Load(); n != most {
			t.Errorf("%d are hashed at once, want %d", n, most)
		}
		if got := d.send(path, "s3cret", `{"id":"1"}`); got.Code != 200 {
			t.Errorf("a small delivery meanwhile: %d", got.Code)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := refused.Load(); n != 10-most {
			t.Errorf("%d are told to come again, want all that wait", n)
		}
		close(vendor.release)
		all.Wait()
	})
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
