package capture

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plainly signs so that a test can read what was signed, with what and when.
func plainly(secret string, body []byte, at time.Time) http.Header {
	return http.Header{"X-Signed": {secret + "|" + string(body) + "|" + at.UTC().Format(time.TimeOnly)}}
}

func TestResign(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // midnight
		body := string(sample().Content)
		first, last := 0, -1
		for _, tt := range []struct {
			name         string
			alter        *Alter
			signed, body string
			header       Header
		}{
			{"as it is", nil, "mine|" + body + "|00:00:00", body, Header{"X-Slack-Retry-Num", "1"}},
			{"replaced, then signed", &Alter{Replace: []string{"event", "other"}}, "mine|" + strings.Replace(body, "event", "other", 1) + "|00:00:00", strings.Replace(body, "event", "other", 1), Header{}},
			{"another header", &Alter{SetHeader: &Header{"x-slack-retry-num", "2"}}, "mine|" + body + "|00:00:00", body, Header{"X-Slack-Retry-Num", "2"}},
			{"aged", &Alter{Age: time.Hour}, "mine|" + body + "|23:00:00", body, Header{}},
			{"signed, then flipped", &Alter{FlipByte: &first}, "mine|" + body + "|00:00:00", "z" + body[1:], Header{}},
			{"flipped at its end", &Alter{FlipByte: &last}, "mine|" + body + "|00:00:00", body[:len(body)-1] + "\x0b", Header{}},
			{"foreign", &Alter{Foreign: true}, stranger + "|" + body + "|00:00:00", body, Header{}},
			{"dropped", &Alter{DropHeader: "x-signed"}, "", body, Header{}},
		} {
			req, err := sample().Request(t.Context(), "http://h:1", Place{Path: "/webhooks/slack/sources/live", Secret: "mine"}, plainly, tt.alter)
			if err != nil {
				t.Fatal(tt.name, err)
			}
			got, err := io.ReadAll(req.Body)
			if err != nil || string(got) != tt.body || req.ContentLength != int64(len(tt.body)) {
				t.Errorf("%s: body %q of %d, %v", tt.name, got, req.ContentLength, err)
			}
			if req.Header.Get("X-Signed") != tt.signed || tt.header[0] != "" && req.Header.Get(tt.header[0]) != tt.header[1] {
				t.Errorf("%s: headers %v", tt.name, req.Header)
			}
			if req.URL.String() != "http://h:1/webhooks/slack/sources/live?q=1" || req.Method != "POST" || req.Header.Get("User-Agent") != "Slackbot 1.0 (+https://x)" {
				t.Errorf("%s: %s %s", tt.name, req.Method, req.URL)
			}
		}
	})
}

func TestAlterOverride(t *testing.T) {
	t.Parallel()
	c := sample()
	c.Sign.Alter = &Alter{Foreign: true}
	signed := func(alter *Alter) string {
		req, err := c.Request(t.Context(), "http://h", Place{Path: "/p", Secret: "mine"}, plainly, alter)
		if err != nil {
			t.Fatal(err)
		}
		return req.Header.Get("X-Signed")
	}
	if !strings.HasPrefix(signed(nil), stranger) || !strings.HasPrefix(signed(&Alter{}), "mine") {
		t.Errorf("%q, %q", signed(nil), signed(&Alter{}))
	}
}

func TestWhatMustNotBeReplayedIsNot(t *testing.T) {
	t.Parallel()
	send := func(edit func(*Capture), alter *Alter) error {
		c := sample()
		edit(c)
		_, err := c.Request(t.Context(), "http://h", Place{}, plainly, alter)
		return err
	}
	if err := send(func(c *Capture) { c.Sign.Mode = Kept }, nil); !errors.Is(err, ErrNotReplayed) {
		t.Errorf("a signature that came: %v", err)
	}
	if err := send(func(c *Capture) { c.Sign = Sign{Mode: Recorded, Secret: "s"} }, nil); !errors.Is(err, errRecorded) {
		t.Errorf("a recorded one, now: %v", err)
	}
	if _, err := sample().Request(t.Context(), "http://h", Place{}, nil, nil); !errors.Is(err, ErrNoSigner) {
		t.Errorf("one that cannot be signed: %v", err)
	}
	far := 1000
	for _, alter := range []Alter{{FlipByte: &far}, {DropHeader: "X-None"}, {Replace: []string{"not there", ""}}} {
		if err := send(func(*Capture) {}, &alter); err == nil {
			t.Errorf("%+v alters nothing, and says nothing", alter)
		}
	}
	if _, err := sample().RecordedRequest(context.Background(), "http://h", "/p"); err == nil {
		t.Error("what is signed anew was sent as recorded")
	}
}

func TestPlacesNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	places := Places{PlaceKey("slack", "source", "app"): {Path: "/s"}}
	if place, err := places.Of(sample()); err != nil || place.Path != "/s" {
		t.Errorf("%+v %v", place, err)
	}
	c := sample()
	c.Target = "/webhooks/slack/{job}"
	if _, err := places.Of(c); err == nil || !strings.Contains(err.Error(), `slack job "team"`) {
		t.Error(err)
	}
}

func TestPlanTimes(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]int{0, 0, 1, 1, 2, 2}, Plan{Times: 2}.Order(3)); diff != "" {
		t.Error(diff)
	}
	mixed := Plan{Times: 50, Shuffle: true, Seed: 7}
	order := mixed.Order(3)
	if slices.IsSorted(order) || !slices.Equal(order, mixed.Order(3)) || slices.Equal(order, Plan{Times: 50, Shuffle: true, Seed: 8}.Order(3)) {
		t.Error("not shuffled, or not by its seed")
	}
	slices.Sort(order)
	if !slices.Equal(order, Plan{Times: 50}.Order(3)) {
		t.Error("the shuffle has lost some")
	}

	var mu sync.Mutex
	var sent []int
	underWay, most := 0, 0
	Plan{Times: 30, Concurrency: 4}.Run(t.Context(), 2, func(i int) {
		mu.Lock()
		sent = append(sent, i)
		underWay++
		most = max(most, underWay)
		mu.Unlock()
		mu.Lock()
		underWay--
		mu.Unlock()
	})
	slices.Sort(sent)
	if !slices.Equal(sent, Plan{Times: 30}.Order(2)) || most > 4 {
		t.Errorf("%d sent, %d at once", len(sent), most)
	}
}

func TestPlanRateAndStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Plan{Times: 11, Concurrency: 3, Rate: 10}.Run(t.Context(), 1, func(int) {})
		if took := time.Since(began); took != time.Second {
			t.Errorf("eleven at ten a second took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		Plan{Times: 100, Rate: 10}.Run(ctx, 1, func(int) {
			if n++; n == 3 {
				cancel()
			}
		})
		if n != 3 {
			t.Errorf("%d sent after the third was told to be the last", n)
		}
	})
}

func TestOutcomesAddUpAndAreListed(t *testing.T) {
	t.Parallel()
	e := Expect{Once: Result{Status: 200, Outcomes: Outcomes{Accepted: 2, "unknown_job": 1}, Rows: 2, Drops: 1},
		Again: &Result{Status: 200, Outcomes: Outcomes{"duplicate": 2, "unknown_job": 1}, Drops: 1}}
	got := e.After(20)
	if got.Outcomes.String() != "accepted 2, duplicate 38, unknown_job 20" || got.Rows != 2 || got.Drops != 20 || got.Outcomes.Total() != 60 {
		t.Errorf("%s, %d rows, %d drops", got.Outcomes, got.Rows, got.Drops)
	}
	if once := e.After(1); once.Outcomes.String() != e.Once.Outcomes.String() || once.Rows != 2 {
		t.Errorf("%+v", once)
	}
	if got := (Outcomes{Accepted: 1}).Plus(Outcomes{Accepted: 1}, -1).String(); got != "none" {
		t.Error(got)
	}
	alone := Expect{Once: Result{Outcomes: Outcomes{Accepted: 1}, Rows: 1}}
	if got := alone.After(3); got.Rows != 3 || got.Outcomes[Accepted] != 3 {
		t.Errorf("said of once alone: %+v", got)
	}
}
