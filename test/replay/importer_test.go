package replay_test

import (
	"fmt"
	"net/http"
	"testing"

	"webhook-gateway/test/replay"
)

// A test of another module knows only this package.
func TestCapturesOfAnotherModule(t *testing.T) {
	t.Parallel()
	captures := replay.Load(t, "testdata/slack/app-mention", "testdata/slack/block-actions")
	before := fmt.Sprintf("%+v %+v %+v", captures[0].Expect, *captures[0].Expect.Again, *captures[0].Expect.Twenty)
	var (
		first    *replay.Capture = captures[0]
		expect   replay.Expect   = first.Expect
		outcomes replay.Outcomes = expect.Once.Outcomes
		party    *replay.Party   = first.Source
		row      replay.Row      = expect.Stored[0]
	)
	if outcomes["accepted"] != 1 || outcomes.Total() != 1 || party.Pins["api_app_id"] != "A0REPLAYAPP" || row.ID != "Ev0RPL000010" {
		t.Errorf("%+v, %+v, %+v", expect, party, row)
	}

	places := replay.Places{replay.PlaceKey("slack", "source", party.Name): {Path: "/webhooks/slack/sources/mine", Secret: "s"}}
	calls := 0
	mine := replay.Target{Places: places, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/webhooks/slack/sources/mine" && r.Header.Get("X-Slack-Signature") != "" {
			calls++
		}
	})}
	replay.Run(t, captures, mine)
	if calls != 4 {
		t.Errorf("%d calls", calls)
	}
	// A handler without a Watch cannot show outcomes, but the capture keeps expecting them of a gateway.
	after := fmt.Sprintf("%+v %+v %+v", captures[0].Expect, *captures[0].Expect.Again, *captures[0].Expect.Twenty)
	if before != after {
		t.Errorf("Run has changed the captures:\n%s\n%s", before, after)
	}
	replay.Run(t, captures, replay.NewMemory(t, captures).Target())
	twenty := replay.NewMemory(t, captures)
	replay.Twenty(t, captures, replay.Target{Handler: twenty, Places: twenty.Target().Places})
	replay.Twenty(t, captures, replay.NewMemory(t, captures).Target())
}

// A capture need not say what it expects of twenty at once or of a second time.
func TestCapturesThatSayLittle(t *testing.T) {
	t.Parallel()
	captures := replay.Load(t, "testdata/slack/app-mention", "testdata/nylas/challenge")
	for _, c := range captures {
		c.Expect.Twenty, c.Expect.Stored = nil, nil
	}
	captures[1].Expect.Again = nil // the same every time
	replay.Run(t, captures, replay.NewMemory(t, captures).Target())
	replay.Twenty(t, captures, replay.NewMemory(t, captures).Target())
	for _, c := range captures {
		if c.Expect.Twenty != nil || c.Expect.Stored != nil {
			t.Errorf("%s has been changed", c.Name)
		}
	}
}
