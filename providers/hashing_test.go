package providers_test

import (
	"fmt"
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
