package slack

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

// mention is an event from which the cases below change one thing.
const mention = `{"token":"XXYYZZ","team_id":"T1","context_team_id":"T1","context_enterprise_id":null,"api_app_id":"A1","event":{"type":"app_mention","user":"U1","team":"T1","text":"<@U2> hello","ts":"1531431954.000073","channel":"C1","event_ts":"1531431954.000073"},"type":"event_callback","event_id":"Ev1","event_time":1531431954,"authorizations":[{"enterprise_id":null,"team_id":"T1","user_id":"U2","is_bot":true,"is_enterprise_install":false}],"is_ext_shared_channel":false,"event_context":"4-x"}`

// click is an interaction from which the cases below change one thing.
const click = `{"type":"block_actions","user":{"id":"U1","username":"u","team_id":"T1"},"api_app_id":"A1","token":"XXYYZZ","container":{"type":"message","channel_id":"C9"},"trigger_id":"12466734323.1395872398","team":{"id":"T1","domain":"d"},"enterprise":null,"is_enterprise_install":false,"channel":{"id":"C1","name":"n"},"message":{"type":"message","blocks":[{"type":"of_tomorrow"}]},"response_url":"https://hooks.slack.com/actions/T1/1/x","actions":[{"action_id":"a1","block_id":"b1","action_ts":"1548426417.840180"},{"action_id":"a2","action_ts":"2"}]}`

func change(t testing.TB, text, from, to string) string {
	t.Helper()
	if strings.Count(text, from) != 1 {
		t.Fatalf("%q is not there once", from)
	}
	return strings.Replace(text, from, to, 1)
}

func ids(pairs ...string) (named []jobs.Identity) {
	for i := 0; i < len(pairs); i += 2 {
		named = append(named, jobs.Identity{Name: pairs[i], Value: pairs[i+1]})
	}
	return named
}

func read(t testing.TB, contentType, body string) providers.Delivery {
	t.Helper()
	deliveries, err := New().Parse(contentType, []byte(body))
	if err != nil || len(deliveries) != 1 {
		t.Fatalf("%.300s: %d deliveries, %v", body, len(deliveries), err)
	}
	return deliveries[0]
}

func interaction(payload string) string { return url.Values{"payload": {payload}}.Encode() }

func TestEvent(t *testing.T) {
	t.Parallel()
	named := ids("api_app_id", "A1", "team_id", "T1")
	whole := providers.Delivery{VendorID: "Ev1", Type: "app_mention", Tenant: named[1], Named: named, OrderingKey: "C1"}
	with := func(change func(*providers.Delivery)) providers.Delivery {
		d := whole
		change(&d)
		return d
	}
	noID := with(func(d *providers.Delivery) { d.VendorID = "" })
	outer := with(func(d *providers.Delivery) { d.Type = "event_callback" })
	bare := with(func(d *providers.Delivery) { d.Type, d.OrderingKey = "event_callback", "" })
	inChannel := func(id string) providers.Delivery {
		return with(func(d *providers.Delivery) { d.OrderingKey = id })
	}
	unknown := func(kind string) providers.Delivery {
		return with(func(d *providers.Delivery) { d.Type, d.VendorID, d.OrderingKey = kind, "", "" })
	}
	const inner = `"event":{"type":"app_mention","user":"U1","team":"T1","text":"<@U2> hello","ts":"1531431954.000073","channel":"C1","event_ts":"1531431954.000073"},`
	for _, c := range []struct {
		name, from, to string
		want           providers.Delivery
	}{
		{"as it is", "Ev1", "Ev1", whole},
		{"an unknown type", "app_mention", "of_tomorrow", with(func(d *providers.Delivery) { d.Type = "of_tomorrow" })},
		{"no inner type", `"type":"app_mention",`, "", outer},
		{"a null inner type", `"app_mention"`, "null", outer},
		{"an empty inner type", `"app_mention"`, `""`, outer},
		{"a number for an inner type", `"app_mention"`, "7", outer},
		{"two inner types", `"type":"app_mention"`, `"type":"a","type":"b"`, outer},
		{"no inner event", inner, "", bare},
		{"a null inner event", inner, `"event":null,`, bare},
		{"an empty inner event", inner, `"event":{},`, bare},
		{"no id", `"event_id":"Ev1",`, "", noID},
		{"a null id", `"Ev1"`, "null", noID},
		{"an empty id", `"Ev1"`, `""`, noID},
		{"a number for an id", `"Ev1"`, "1", noID},
		{"two ids", `"event_id"`, `"event_id":"Ev0","event_id"`, noID},
		{"an id of another case", `"event_id"`, `"Event_Id":"Ev0","event_id"`, whole},
		{"no type", `"type":"event_callback",`, "", unknown("")},
		{"a null type", `"event_callback"`, "null", unknown("")},
		{"two types", `"type":"event_callback"`, `"type":"event_callback","type":"event_callback"`, unknown("")},
		{"an unknown outer type", `"event_callback"`, `"of_tomorrow"`, unknown("of_tomorrow")},
		{"a trigger beside", `"event_id":"Ev1"`, `"event_id":"Ev1","trigger_id":"1.2"`, whole},
		{"a channel as an object", `"channel":"C1"`, `"channel":{"id":"C2"}`, inChannel("C2")},
		{"the channel of the item", `"channel":"C1"`, `"item":{"channel":"C3"}`, inChannel("C3")},
		{"the channel before the item's", `"channel":"C1"`, `"item":{"channel":"C3"},"channel":"C1"`, whole},
		{"no channel", `"channel":"C1",`, "", inChannel("")},
		{"a number for a channel", `"C1"`, "7", inChannel("")},
		{"two channels", `"channel":"C1"`, `"channel":"C1","channel":"C1"`, inChannel("")},
		{"a channel outside", `"event_id"`, `"channel":"C9","event_id"`, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := change(t, mention, c.from, c.to)
			c.want.Hash = canonical.Hash([]byte(body), "token", "event_time", "event_context", "authorizations", "authed_users", "authed_teams")
			if diff := cmp.Diff(c.want, read(t, asJSON, body)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInteraction(t *testing.T) {
	t.Parallel()
	named := ids("api_app_id", "A1", "team_id", "T1")
	whole := providers.Delivery{VendorID: "12466734323.1395872398", Type: "block_actions", Tenant: named[1], Named: named, OrderingKey: "C1"}
	with := func(change func(*providers.Delivery)) providers.Delivery {
		d := whole
		change(&d)
		return d
	}
	is := func(kind, id string) providers.Delivery {
		return with(func(d *providers.Delivery) { d.Type, d.VendorID = kind, id })
	}
	const trigger = `"trigger_id":"12466734323.1395872398",`
	as := func(kind string) string { return change(t, click, `"type":"block_actions"`, `"type":"`+kind+`"`) }
	without := func(kind, more string) string { return change(t, as(kind), trigger, more) }
	submission := without("view_submission", `"view":{"id":"V1","hash":"h1","team_id":"T1"},`)
	for _, c := range []struct {
		name, payload string
		want          providers.Delivery
	}{
		{"a click", click, whole},
		{"a global shortcut", as("shortcut"), is("shortcut", whole.VendorID)},
		{"a message shortcut", as("message_action"), is("message_action", whole.VendorID)},
		{"an old message's button", as("interactive_message"), is("interactive_message", whole.VendorID)},
		{"a submission", as("view_submission"), is("view_submission", whole.VendorID)},
		{"a closed view", as("view_closed"), is("view_closed", "")},
		{"a suggestion", as("block_suggestion"), is("block_suggestion", "")},
		{"an unknown interaction", as("of_tomorrow"), is("of_tomorrow", "")},
		{"a click without a trigger", without("block_actions", ""), is("block_actions", "block_actions:17:1548426417.840180:2:U1:2:a1")},
		{"a click with a null trigger", without("block_actions", `"trigger_id":null,`), is("block_actions", "block_actions:17:1548426417.840180:2:U1:2:a1")},
		{"a click with two triggers", without("block_actions", trigger+trigger), is("block_actions", "block_actions:17:1548426417.840180:2:U1:2:a1")},
		{"a click without a trigger and a time", change(t, without("block_actions", ""), `"action_ts":"1548426417.840180"`, `"x":1`), is("block_actions", "")},
		{"a click without a trigger and a user", change(t, without("block_actions", ""), `"id":"U1"`, `"x":1`), is("block_actions", "")},
		{"a click without a trigger and an action's id", change(t, without("block_actions", ""), `"action_id":"a1"`, `"x":1`), is("block_actions", "")},
		{"a click without a trigger and actions", change(t, without("block_actions", ""), `"actions":[`, `"x":[`), is("block_actions", "")},
		{"a shortcut without a trigger", without("shortcut", `"action_ts":"1.2",`), is("shortcut", "")},
		{"a submission without a trigger", submission, is("view_submission", "view_submission:2:V1:2:h1:2:U1")},
		{"a submission without a trigger and a hash", change(t, submission, `"hash":"h1",`, ""), is("view_submission", "")},
		{"a submission without a trigger and a view's id", change(t, submission, `"id":"V1",`, ""), is("view_submission", "")},
		{"a submission without a trigger and a user", change(t, submission, `"id":"U1",`, ""), is("view_submission", "")},
		{"a dialog", without("dialog_submission", `"action_ts":"1.2",`), is("dialog_submission", "dialog_submission:3:1.2")},
		{"a cancelled dialog", without("dialog_cancellation", `"action_ts":"1.2",`), is("dialog_cancellation", "dialog_cancellation:3:1.2")},
		{"a dialog without a time", without("dialog_submission", ""), is("dialog_submission", "")},
		{"no app, as shortcuts come", change(t, click, `"api_app_id":"A1",`, ""), with(func(d *providers.Delivery) { d.Named = named[1:] })},
		{"a channel that is a text", change(t, click, `"channel":{"id":"C1","name":"n"}`, `"channel":"C1"`), whole},
		{"no channel", change(t, click, `"channel":{"id":"C1","name":"n"},`, ""), with(func(d *providers.Delivery) { d.OrderingKey = "" })},
		{"no type", change(t, click, `"type":"block_actions",`, ""), is("", "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := interaction(c.payload)
			c.want.Hash = canonical.Raw([]byte(body))
			if diff := cmp.Diff(c.want, read(t, asForm, body)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRateLimitNotice(t *testing.T) {
	t.Parallel()
	const notice = `{"token":"x","type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820,"api_app_id":"A1"}`
	got := read(t, asJSON, notice)
	want := providers.Delivery{
		VendorID: "app_rate_limited:2:A1:2:T1:10:1518467820", Type: "app_rate_limited", Tenant: ids("team_id", "T1")[0],
		Named: ids("api_app_id", "A1", "team_id", "T1"), Hash: canonical.Hash([]byte(notice), "token"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range [][2]string{
		{`"team_id":"T1",`, ``}, {`,"api_app_id":"A1"`, ``}, {`"minute_rate_limited":1518467820,`, ``}, {`1518467820`, `"1518467820"`}, {`"T1"`, `""`},
	} {
		if id := read(t, asJSON, change(t, notice, c[0], c[1])).VendorID; id != "" {
			t.Errorf("%s for %s: id %s", c[1], c[0], id)
		}
	}
	seen := map[string]bool{}
	for _, c := range [][2]string{{`"x"`, `"x"`}, {`"T1"`, `"T2"`}, {`"A1"`, `"A2"`}, {`1518467820`, `1518467821`}, {`"A1"`, `"A1:2:T1"`}} {
		id := read(t, asJSON, change(t, notice, c[0], c[1])).VendorID
		if seen[id] {
			t.Errorf("%s for %s: the id %s, again", c[1], c[0], id)
		}
		seen[id] = true
	}
}

func TestRetriesOfOneEventAreEqual(t *testing.T) {
	t.Parallel()
	first := read(t, asJSON, mention)
	for _, c := range [][2]string{
		{`"event_time":1531431954`, `"event_time":1531431999`},
		{`"event_context":"4-x"`, `"event_context":"4-y"`},
		{`"XXYYZZ"`, `"other"`},
		{`"user_id":"U2"`, `"user_id":"U7"`},
		{`"is_ext_shared_channel":false`, `"authed_users":["U1"],"authed_teams":["T1"],"is_ext_shared_channel":false`},
		{`"team_id":"T1","context`, `"team_id":"T1", "context`},
	} {
		if diff := cmp.Diff(first, read(t, asJSON, change(t, mention, c[0], c[1]))); diff != "" {
			t.Errorf("%s (-first +this):\n%s", c[1], diff)
		}
	}
	for _, c := range [][2]string{
		{`hello`, `Hello`}, {`"ts":"1531431954.000073"`, `"ts":"1531431954.000074"`}, {`"user":"U1"`, `"user":"U1","token":"x"`}, {`"api_app_id":"A1"`, `"api_app_id":"A2"`},
	} {
		if read(t, asJSON, change(t, mention, c[0], c[1])).Hash == first.Hash {
			t.Errorf("%s: taken for the same content", c[1])
		}
	}
}

func TestBodyTellsWhatItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, contentType, body, kind string }{
		{"JSON said to be a form", asForm, mention, "app_mention"},
		{"JSON said to be text", "text/plain", mention, "app_mention"},
		{"JSON said to be nothing", "", mention, "app_mention"},
		{"JSON after blanks", "", " \r\n\t" + mention, "app_mention"},
		{"an array", asJSON, `[1]`, ""},
		{"a text", asJSON, `"text"`, ""},
		{"an empty object", asJSON, `{}`, ""},
		{"a form with a parameter", asForm + "; charset=utf-8", "command=%2Fx", "slash_command"},
		{"a form in another case", "Application/X-WWW-Form-URLEncoded", "command=%2Fx", "slash_command"},
		{"a form with a broken parameter", asForm + "; charset", "command=%2Fx", "slash_command"},
		{"a payload that is an array", asForm, "payload=[]", ""},
		{"a payload that is a number", asForm, "payload=7", ""},
		{"a payload beside a command", asForm, "command=%2Fx&payload=%7B%22type%22%3A%22shortcut%22%7D", "shortcut"},
		{"another form", asForm, "a=1&b=2", ""},
		{"a probe that got this far", asForm, "ssl_check=1&token=x", "ssl_check"},
		{"a command whose text has the word", asForm, "command=%2Fx&text=payload%3D%7B%7D", "slash_command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := read(t, c.contentType, c.body); got.Type != c.kind || got.Hash == "" {
				t.Errorf("got %+v, want type %q", got, c.kind)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"", ""}, {asJSON, ""}, {asForm, ""}, {asJSON, " "}, {asJSON, "7"}, {asJSON, "null"}, {asJSON, "test-body"},
		{asJSON, "{"}, {asJSON, mention + "x"}, {asJSON, mention + mention}, {asJSON, "\ufeff" + mention}, {asForm, mention[:100]},
		{asJSON, strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001)},
		{asJSON, "command=%2Fx"}, {"", "command=%2Fx"}, {"multipart/form-data; boundary=x", "command=%2Fx"}, {"text/plain", "payload=%7B%7D"},
		{asForm + "-x", "command=%2Fx"}, {asForm + ", " + asForm, "command=%2Fx"},
		{asForm, "payload="}, {asForm, "payload=x"}, {asForm, "payload=%7B"},
		{asForm, "payload=%7B%7D&payload=%7B%7D"}, {asForm, interaction(mention + "x")},
		{asForm, "command=%2Fx&team_id=T1&team_id=T1"}, {asForm, "command=%2Fx&enterprise_id=E1&enterprise_id=E2"},
		{asForm, "command=%2Fx&api_app_id=A1&api_app_id="}, {asForm, "a=1&is_enterprise_install=true&is_enterprise_install=false"},
	} {
		deliveries, err := New().Parse(c[0], []byte(c[1]))
		if deliveries != nil || !errors.Is(err, providers.ErrMalformed) {
			t.Errorf("%q, %.100q: %+v, %v; want ErrMalformed", c[0], c[1], deliveries, err)
		} else if strings.Contains(err.Error(), "T1") {
			t.Errorf("the error tells content: %v", err)
		}
	}
}

func TestNothingSecretIsKept(t *testing.T) {
	t.Parallel()
	want := []string{"user-agent", "x-slack-retry-num", "x-slack-retry-reason"}
	if got := New().Headers(); !slices.Equal(got, want) {
		t.Errorf("keeps %q", got)
	}
	if got := New().Name(); got != "slack" {
		t.Errorf("name %q", got)
	}
	const response = "https://hooks.slack.com/commands/T1/1/secret"
	d := read(t, asForm, url.Values{"command": {"/x"}, "response_url": {response}, "token": {"sesame"}}.Encode())
	for _, text := range []string{d.VendorID, d.OrderingKey, d.Type} {
		if strings.Contains(text, "secret") || strings.Contains(text, "sesame") {
			t.Errorf("%q tells a secret", text)
		}
	}
}
