package inbox_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
)

// newer is Nylas as a later release may read it: with another method for fingerprints.
type newer struct{ *nylas.Provider }

func (n newer) Parse(contentType string, body []byte) ([]providers.Delivery, error) {
	deliveries, err := n.Provider.Parse(contentType, body)
	for i := range deliveries {
		deliveries[i].Hash = fmt.Sprintf("c2:%x", sha256.Sum256([]byte(deliveries[i].Hash)))
	}
	return deliveries, err
}

func (n newer) Rehash(method, contentType string, body []byte) (hashes []string, known bool) {
	if method != "c1" {
		return nil, false
	}
	deliveries, _ := n.Provider.Parse(contentType, body)
	for _, d := range deliveries {
		hashes = append(hashes, d.Hash)
	}
	return hashes, true
}

// gates are two releases on one database, with a job for the grant G1, and one for the account of that name.
type gates struct {
	*world
	today, next *providers.Gate
	settleTime  time.Duration // how long a delivery may take
}

func newGates(t *testing.T) *gates {
	t.Helper()
	w := newWorld(t, defaults)
	keys, err := jobs.NewKeys(strings.Repeat("A", 43) + "=")
	if err != nil {
		t.Fatal(err)
	}
	store := jobs.NewStore(w.pool, keys)
	source, err := store.AddSource(t.Context(), jobs.NewSource{Provider: "nylas", Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	w.source = source.ID
	for _, name := range []string{"grant_id", "account_id"} {
		if _, err := store.AddJob(t.Context(), jobs.NewJob{
			Provider: "nylas", Organization: w.org, Source: "main", Pins: []jobs.Identity{{Name: name, Value: "G1"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := jobs.Read(t.Context(), w.pool, keys)
	if err != nil {
		t.Fatal(err)
	}
	gate := func(p providers.Provider) *providers.Gate {
		return providers.NewGate([]providers.Provider{p}, snapshot, w.box, drops.NewLedger([]string{"nylas"}), 1<<20)
	}
	return &gates{w, gate(nylas.New()), gate(newer{nylas.New()}), 30 * time.Second}
}

// admit takes a body through a release's gate, compressed or not, and returns how its deliveries ended.
func (g *gates) admit(gate *providers.Gate, body string, compressed bool) []string {
	g.t.Helper()
	req := &providers.Request{
		ID: uuid.Must(uuid.NewV7()), Seed: providers.NewSeed(), Provider: "nylas", Target: providers.Target{Source: "main"},
		VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: g.source}, ReceivedAt: time.Now().Add(-time.Minute),
		ContentType: "application/json", Body: []byte(body),
	}
	if compressed {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(req.Body) // to memory
		_ = z.Close()
		req.Body, req.ContentEncoding = packed.Bytes(), "gzip"
	}
	items, err := gate.Read(g.t.Context(), req)
	if err != nil {
		g.t.Fatal(err)
	}
	admission, err := gate.Recover(req, items, time.Now().Add(g.settleTime))
	if err != nil {
		g.t.Fatal(err)
	}
	<-admission.Ended
	var said []string
	for _, e := range admission.Endings {
		said = append(said, say(e))
	}
	return said
}

// An upgrade may change how content is fingerprinted while vendors still repeat what the last release stored.
func TestTheHashMethodCanChange(t *testing.T) {
	t.Parallel()
	message := func(attempt int, subject string) string {
		return fmt.Sprintf(`{"specversion":"1.0","type":"message.created","id":"E1","webhook_delivery_attempt":%d,
			"data":{"application_id":"A","object":{"grant_id":"G1","id":"m1","object":"message","subject":%q}}}`, attempt, subject)
	}
	deltas := func(subject string) string {
		delta := `{"date":1,"object":"message","type":"message.created","object_data":{"namespace_id":"n","account_id":"G1","object":"message","id":"%s","metadata":%q}}`
		return `{"deltas":[` + fmt.Sprintf(delta, "1", "same") + "," + fmt.Sprintf(delta, "2", subject) + `]}`
	}
	for _, compressed := range []bool{false, true} {
		t.Run(fmt.Sprintf("compressed %v", compressed), func(t *testing.T) {
			t.Parallel()
			g := newGates(t)
			g.wantEndings(g.admit(g.today, message(1, "hi"), compressed), accepted)
			g.wantEndings(g.admit(g.next, message(2, "hi"), compressed), duplicate)
			g.wantEndings(g.admit(g.next, message(2, "another"), compressed), mismatch)
			g.wantEndings(g.admit(g.today, deltas("hi"), compressed), accepted, accepted)
			g.wantEndings(g.admit(g.next, deltas("hi"), compressed), duplicate, duplicate)
			g.wantEndings(g.admit(g.next, deltas("another"), compressed), duplicate, mismatch)
			g.wantRows(3, 3, 2)
		})
	}
	t.Run("back again", func(t *testing.T) {
		t.Parallel()
		g := newGates(t)
		g.wantEndings(g.admit(g.next, message(1, "hi"), false), accepted)
		// This release cannot tell, so there is no verdict.
		g.settleTime = time.Second
		g.wantEndings(g.admit(g.today, message(2, "hi"), false), failed)
		g.settleTime = 30 * time.Second
		g.wantEndings(g.admit(g.next, message(2, "hi"), false), duplicate)
		g.wantRows(1, 1, 0)
	})
	t.Run("raw", func(t *testing.T) {
		t.Parallel()
		g := newGates(t)
		// A member that is there twice: no canonical form, so both releases hash the bytes.
		twice := strings.Replace(message(1, "hi"), `"object":"message"`, `"object":"message","extra":1,"extra":2`, 1)
		g.wantEndings(g.admit(g.today, twice, true), accepted)
		g.wantEndings(g.admit(g.today, twice, true), duplicate)
		g.wantEndings(g.admit(g.today, message(1, "hi"), true), mismatch)
	})
}
