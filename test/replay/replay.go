// Package replay replays captured deliveries in tests: its own, which send every capture of testdata to the
// built gateway on a real PostgreSQL, and those of anybody who imports it.
//
//	captures := replay.Load(t, "testdata")
//	gateway := replay.NewMemory(t, captures)          // or a Target with the URL of one that runs
//	replay.Run(t, captures, gateway.Target())
//
// The format of a capture is told in docs/replaying.md. A Target without a Watch is checked by the status
// and the body of its answers alone; so a consumer's own handler can be tested with the same folders. Nothing here
// changes a capture, but for Target.Update.
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

// Vendors are the vendors whose captures can be replayed.
func Vendors() []providers.Provider { return []providers.Provider{nylas.New(), slack.New()} }

// Signers sign as the vendors do.
func Signers() map[string]Signer {
	list := make(map[string]Signer)
	for _, v := range Vendors() {
		if s, ok := v.(providers.Signer); ok {
			list[v.Name()] = s.Sign
		}
	}
	return list
}

// Load reads every capture in and below the paths. A test whose captures are not right fails.
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

// Target is what captures are sent to.
type Target struct {
	URL     string       // its address, without a path
	Handler http.Handler // in place of a URL
	Places  Places       // paths and secrets of whom the captures need
	Client  *http.Client // http.DefaultClient if nil; has no meaning for a Handler
	Watch   Watch        // knows the outcomes of what was sent; may be nil
	// Update rewrites the expectations of captures that do not hold, in the place of failing.
	Update bool
}

// Watch knows the outcomes of everything that a target was sent through its Places.
type Watch interface {
	Seen(t testing.TB) Seen
}

// Seen holds the outcomes of requests so far.
type Seen struct {
	Outcomes Outcomes
	Stored   []Stored // the inbox, in the order of storing
	Drops    int      // rows of the drops
}

// Stored is a row of the inbox.
type Stored struct {
	Row
	Body []byte
}

// Answer is what came back.
type Answer struct {
	Status int
	Body   string
	Header http.Header
}

// Send sends a capture, signed now, changed as alter says if it is not nil.
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
