// Package replay replays captured deliveries in tests: in its own, which send every capture of testdata to the built
// gateway on a real PostgreSQL, and in those of any module that imports it.
//
//	captures := replay.Load(t, "testdata")
//	gateway := replay.NewMemory(t, captures)          // or a Target with the URL of one that runs
//	replay.Run(t, captures, gateway.Target())
//
// docs/replaying.md describes the format of a capture. A Target without a Watch is checked only by the status and
// body of its answers, so the same folders test a consumer's own handler. Only Target.Update changes captures.
package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// Vendors returns the vendors whose captures can be replayed.
func Vendors() []providers.Provider { return []providers.Provider{nylas.New(), slack.New()} }

// Signers returns the vendors' ways to sign, by vendor.
func Signers() map[string]Signer {
	list := make(map[string]Signer)
	for _, v := range Vendors() {
		if s, ok := v.(providers.Signer); ok {
			list[v.Name()] = s.Sign
		}
	}
	return list
}

// Load reads every capture in and below the paths. It fails the test if a capture is not valid.
func Load(t testing.TB, paths ...string) []*Capture {
	t.Helper()
	list, err := capture.LoadAll(paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Sign.Mode == capture.Kept {
			t.Fatalf("capture %s: %v", c.Name, capture.ErrNotReplayed)
		}
	}
	return list
}

// Target receives captures.
type Target struct {
	URL     string       // its URL, without a path
	Handler http.Handler // used instead of a URL
	Places  Places       // paths and secrets of the sources and jobs that the captures need
	Client  *http.Client // http.DefaultClient if nil; not used with a Handler
	Watch   Watch        // observes the outcomes; may be nil
	// Update rewrites expectations that do not hold, instead of failing the test.
	Update bool
}

// Watch observes the outcomes of everything that was sent to a target's Places.
type Watch interface {
	Seen(t testing.TB) Seen
}

// Seen holds the outcomes of requests so far.
type Seen struct {
	Outcomes Outcomes
	Stored   []Stored // the inbox, in the order of storing
	Drops    int      // number of rows of the drops
}

// Stored is a row of the inbox.
type Stored struct {
	Row
	Body []byte
}

// Answer is one answer.
type Answer struct {
	Status int
	Body   string
	Header http.Header
}

// Send sends a capture, signed now. A non-nil alter changes it.
func (g Target) Send(ctx context.Context, c *Capture, alter *Alter) (Answer, error) {
	place, err := g.Places.Of(c)
	if err != nil {
		return Answer{}, err
	}
	base := g.URL
	if g.Handler != nil {
		base = "http://gateway.test"
	}
	req, err := c.Request(ctx, base, place, Signers()[c.Provider], alter)
	if err != nil {
		return Answer{}, err
	}
	return g.do(req)
}

func (g Target) do(req *http.Request) (Answer, error) {
	if g.Handler != nil {
		rec := httptest.NewRecorder()
		req.RequestURI = req.URL.RequestURI()
		g.Handler.ServeHTTP(rec, req)
		return Answer{Status: rec.Code, Body: rec.Body.String(), Header: rec.Header()}, nil
	}
	client := g.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("send: %w", err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, res.Body); err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{Status: res.StatusCode, Body: body.String(), Header: res.Header}, nil
}
