package slack

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// everywhere names another team, another enterprise in every place that is looked at.
const everywhere = `{"view":{"app_installed_team_id":"T1","team_id":"T8"},"team":{"id":"T2","enterprise_id":"E4"},"authorizations":[{"team_id":"T3","enterprise_id":"E2","is_enterprise_install":false},{"team_id":"T9","enterprise_id":"E6"},null,{"team_id":"T10"}],"team_id":"T4","event":{"team":"T5","team_id":"T6"},"user":{"team_id":"T7"},"enterprise":{"id":"E1"},"enterprise_id":"E3","context_enterprise_id":"E5","context_team_id":"T11","api_app_id":"A1"}`

// outside is everywhere without an authorization, which would decide the enterprise.
func outside(t *testing.T) string {
	t.Helper()
	return change(t, everywhere, `"authorizations":[{"team_id":"T3","enterprise_id":"E2","is_enterprise_install":false},{"team_id":"T9"`, `"authorizations":[null,{"team_id":"T9"`)
}

// teamPlaces are the members above that can be the installation's, in the order in which they count.
var teamPlaces = []string{
	`"app_installed_team_id":"T1"`, `"id":"T2"`, `"team_id":"T3"`, `"team_id":"T4"`, `"team":"T5"`, `"team_id":"T6"`, `"team_id":"T7"`, `"team_id":"T8"`,
}

// enterprisePlaces are those of outside, and contextPlace names an uninstalled one.
var enterprisePlaces = []string{`"id":"E1"`, `"enterprise_id":"E3"`, `"enterprise_id":"E4"`}

const ownPlace, contextPlace = `"enterprise_id":"E2"`, `"context_enterprise_id":"E5"`

// value is the identity that a place names.
func value(name, place string) jobs.Identity {
	parts := strings.Split(place, `"`)
	return jobs.Identity{Name: name, Value: parts[len(parts)-2]}
}

// gone is what may stand in a place instead of an identity.
func gone(t *testing.T, body, place string, round int) string {
	t.Helper()
	name, _, _ := strings.Cut(place, ":")
	return change(t, body, place, []string{`"x":1`, name + ":null", name + `:""`}[round])
}

// wantTenant reads a body as JSON and as the payload of a form.
func wantTenant(t *testing.T, name, body string, want jobs.Identity) {
	t.Helper()
	if got := read(t, asJSON, body).Tenant; got != want {
		t.Errorf("%s: %v, want %v\n%s", name, got, want, body)
	}
	if got := read(t, asForm, interaction(body)).Tenant; got != want {
		t.Errorf("%s, in a payload: %v, want %v\n%s", name, got, want, body)
	}
}

func TestInstallationOrder(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		body := everywhere
		for _, place := range teamPlaces {
			wantTenant(t, place, body, value("team_id", place))
			body = gone(t, body, place, round)
		}
		wantTenant(t, ownPlace, body, value("enterprise_id", ownPlace))
		wantTenant(t, "no own identity", gone(t, body, ownPlace, round), jobs.Identity{})

		body = outside(t)
		for _, place := range teamPlaces {
			if place != `"team_id":"T3"` {
				body = gone(t, body, place, round)
			}
		}
		for _, place := range enterprisePlaces {
			wantTenant(t, place, body, value("enterprise_id", place))
			body = gone(t, body, place, round)
		}
		wantTenant(t, "the context alone", body, jobs.Identity{})
	}
}

func TestEnterpriseInstallation(t *testing.T) {
	t.Parallel()
	own := change(t, everywhere, `"is_enterprise_install":false`, `"is_enterprise_install":true`)
	wantTenant(t, ownPlace, own, value("enterprise_id", ownPlace))
	for round := range 3 {
		wantTenant(t, "no own enterprise", gone(t, own, ownPlace, round), value("team_id", teamPlaces[0]))
	}
	body := change(t, outside(t), `"api_app_id":"A1"`, `"api_app_id":"A1","is_enterprise_install":true`)
	for _, place := range enterprisePlaces {
		wantTenant(t, place, body, value("enterprise_id", place))
		body = gone(t, body, place, 1)
	}
	wantTenant(t, "without an enterprise", body, value("team_id", teamPlaces[0]))
}

func TestIsEnterpriseInstall(t *testing.T) {
	t.Parallel()
	const inner, outer = `"is_enterprise_install":false`, `"api_app_id":"A1"`
	orgWide := func(body, flag string) bool {
		if flag != "" {
			body = change(t, body, outer, `"is_enterprise_install":`+flag)
		}
		return read(t, asJSON, body).Tenant.Name == "enterprise_id"
	}
	for flag, want := range map[string]bool{
		``: false, `true`: true, `"true"`: true, `false`: false, `"false"`: false, `"TRUE"`: false, `"1"`: false, `""`: false, `null`: false,
	} {
		if got := orgWide(outside(t), flag); got != want {
			t.Errorf("%q without an authorization: organization-wide %v", flag, got)
		}
		body := change(t, everywhere, inner, `"x":1`)
		if flag != "" {
			body = change(t, everywhere, inner, `"is_enterprise_install":`+flag)
		}
		// What is said outside of an authorization does not count.
		for _, outside := range []string{``, `true`, `"true"`, `false`} {
			if got := orgWide(body, outside); got != want {
				t.Errorf("%q inside, %q outside: organization-wide %v", flag, outside, got)
			}
		}
	}
	second := change(t, everywhere, `"enterprise_id":"E6"`, `"enterprise_id":"E6","is_enterprise_install":true`)
	if got := read(t, asJSON, second).Tenant.Name; got != "team_id" {
		t.Errorf("the second authorization decides: %s", got)
	}
}

// An id that begins with E in a team's place is an enterprise. Where the place is the installation's, that
// enterprise is the tenant, whatever the flag and other members say.
func TestEnterpriseInATeamsPlace(t *testing.T) {
	t.Parallel()
	enterprise := jobs.Identity{Name: "enterprise_id", Value: "E9"}
	for _, c := range []struct {
		name, body string
		want       jobs.Identity
	}{
		{"the view's installation", `{"type":"view_submission","team":{"id":"T1","enterprise_id":"E1"},"user":{"team_id":"T1"},"view":{"team_id":"E9","app_installed_team_id":"E9"},"is_enterprise_install":FLAG,"enterprise":{"id":"E1"}}`, enterprise},
		{"a function", `{"type":"event_callback","team_id":"E9","enterprise_id":"E1","is_enterprise_install":FLAG,"event":{"type":"function_executed"}}`, enterprise},
		{"the team", `{"team":{"id":"E9"},"is_enterprise_install":FLAG,"enterprise":{"id":"E1"}}`, enterprise},
		{"the team as a text", `{"team":"E9","is_enterprise_install":FLAG,"enterprise":"E1"}`, enterprise},
		{"the authorization", `{"authorizations":[{"team_id":"E9","enterprise_id":"E1","is_enterprise_install":FLAG}],"team_id":"T1"}`, enterprise},
		{"the top", `{"team_id":"E9","enterprise_id":"E1","is_enterprise_install":FLAG}`, enterprise},

		{"the event's team", `{"event":{"team":"E9"},"is_enterprise_install":FLAG}`, enterprise},
		{"the event's team id", `{"event":{"team_id":"E9"},"is_enterprise_install":FLAG}`, enterprise},
		{"the user's", `{"team":null,"user":{"team_id":"E9"},"is_enterprise_install":FLAG}`, enterprise},
		{"the view's", `{"team":null,"view":{"team_id":"E9"},"is_enterprise_install":FLAG}`, enterprise},
		{"a stranger's click", `{"team":null,"user":{"team_id":"E1"},"is_enterprise_install":FLAG,"enterprise":{"id":"E9"}}`, enterprise},
		{"a stranger's click on a team's message", `{"team":{"id":"T1"},"user":{"team_id":"E1"},"is_enterprise_install":FLAG,"enterprise":null}`, ids("team_id", "T1")[0]},
		{"a stranger's view", `{"team":null,"user":{"team_id":"T1"},"view":{"team_id":"E1"},"is_enterprise_install":FLAG,"enterprise":null}`, ids("team_id", "T1")[0]},
	} {
		for _, flag := range []string{`true`, `false`, `"true"`, `null`} {
			wantTenant(t, c.name+" "+flag, strings.ReplaceAll(c.body, "FLAG", flag), c.want)
		}
	}
	for _, flag := range []string{"true", "false"} {
		d := read(t, asForm, "command=%2Fx&team_id=E9&enterprise_id=E1&is_enterprise_install="+flag)
		if diff := cmp.Diff(ids("enterprise_id", "E1", "enterprise_id", "E9"), d.Named); d.Tenant != enterprise || diff != "" {
			t.Errorf("a command's %s: %v (-want +got):\n%s", flag, d.Tenant, diff)
		}
	}
	named := read(t, asJSON, `{"team_id":"E9","context_team_id":"E8","user":{"team_id":"E7"}}`).Named
	if diff := cmp.Diff(ids("enterprise_id", "E7", "enterprise_id", "E8", "enterprise_id", "E9"), named); diff != "" {
		t.Errorf("named (-want +got):\n%s", diff)
	}
}

func TestEveryIdentityIsNamed(t *testing.T) {
	t.Parallel()
	want := ids("api_app_id", "A1",
		"enterprise_id", "E1", "enterprise_id", "E2", "enterprise_id", "E3", "enterprise_id", "E4", "enterprise_id", "E5", "enterprise_id", "E6",
		"team_id", "T1", "team_id", "T10", "team_id", "T11", "team_id", "T2", "team_id", "T3", "team_id", "T4", "team_id", "T5", "team_id", "T6",
		"team_id", "T7", "team_id", "T8", "team_id", "T9")
	if diff := cmp.Diff(want, read(t, asJSON, everywhere).Named); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	once := strings.NewReplacer("T2", "T1", "T3", "T1", "T4", "T1", "T5", "T1", "T6", "T1", "T7", "T1", "T8", "T1", "T9", "T1", "T10", "T1", "T11", "T1",
		"E2", "E1", "E3", "E1", "E4", "E1", "E5", "E1", "E6", "E1").Replace(everywhere)
	if diff := cmp.Diff(ids("api_app_id", "A1", "enterprise_id", "E1", "team_id", "T1"), read(t, asJSON, once).Named); diff != "" {
		t.Errorf("repeated ones (-want +got):\n%s", diff)
	}
}

func TestShapesOfInstallations(t *testing.T) {
	t.Parallel()
	team, enterprise := ids("team_id", "T1")[0], ids("enterprise_id", "E1")[0]
	for _, c := range []struct {
		name, body string
		want       jobs.Identity
	}{
		{"an organization's click", `{"type":"block_actions","team":null,"enterprise":{"id":"E1","name":"e"},"is_enterprise_install":true,"user":{"id":"U1","team_id":"T1"}}`, enterprise},
		{"an organization's event in a workspace", `{"type":"event_callback","team_id":"T1","enterprise_id":"E1","authorizations":[{"enterprise_id":"E1","team_id":"T1","is_enterprise_install":true}]}`, enterprise},
		{"an organization that is not named", `{"team_id":"T1","is_enterprise_install":true}`, team},
		{"a workspace of an organization", `{"team":{"id":"T1"},"enterprise":{"id":"E1"},"is_enterprise_install":false}`, team},
		{"a team as a text", `{"team":"T1","enterprise":"E1"}`, team},
		{"an enterprise as a text", `{"team":"T1","enterprise":"E1","is_enterprise_install":true}`, enterprise},
		{"a user as a text", `{"user":"U1","team_id":"T1"}`, team},
		{"an event's team as an object", `{"event":{"team":{"id":"T1"}}}`, team},
		{"a user without a workspace", `{"type":"block_suggestion","team":null,"enterprise":{"id":"E1"},"user":{"id":"U1","team_id":"E1"}}`, enterprise},
		{"a user without a workspace in a view", `{"team":null,"enterprise":{"id":"E1"},"user":{"id":"U1","team_id":"E1"},"view":{"team_id":"T1"}}`, team},
		{"a shared channel, the other's event", `{"team_id":"T2","context_team_id":"T2","authorizations":[{"team_id":"T1"}],"event":{"team":"T2"}}`, team},
		{"a view opened from another workspace", `{"team":{"id":"T2"},"user":{"team_id":"T2"},"view":{"team_id":"T2","app_installed_team_id":"T1"}}`, team},
		{"no authorizations", `{"authorizations":[],"team_id":"T1"}`, team},
		{"a null authorization", `{"authorizations":[null],"team_id":"T1"}`, team},
		{"a null authorization before another", `{"authorizations":[null,{"team_id":"T2"}],"team_id":"T1"}`, team},
		{"null authorizations", `{"authorizations":null,"team_id":"T1"}`, team},
		{"the context alone", `{"context_team_id":"T1","context_enterprise_id":"E1"}`, jobs.Identity{}},
		{"an authorization without an enterprise", `{"authorizations":[{"team_id":"T1","enterprise_id":null,"is_enterprise_install":true}],"enterprise_id":"E2"}`, team},
		{"an authorization without a flag", `{"authorizations":[{"team_id":"T1","enterprise_id":"E1"}],"is_enterprise_install":true}`, team},
		{"an authorization of the enterprise alone", `{"authorizations":[{"team_id":null,"enterprise_id":"E1","is_enterprise_install":true}],"team_id":"T2","enterprise_id":"E2"}`, enterprise},
		{"an authorization beside another organization", `{"authorizations":[{"team_id":"T1","enterprise_id":"E1","is_enterprise_install":true}],"enterprise_id":"E2","is_enterprise_install":false}`, enterprise},
		{"a home tab of two workspaces", `{"type":"block_actions","team":{"id":"T2"},"user":{"team_id":"T2"},"enterprise":{"id":"E1"},"is_enterprise_install":false,"view":{"type":"home","team_id":"T2","app_installed_team_id":"T1"}}`, team},
		{"names of another case", `{"Team_ID":"T1","TEAM":{"id":"T1"}}`, jobs.Identity{}},
		{"an app alone", `{"api_app_id":"A1"}`, jobs.Identity{}},
		{"no object", `["T1"]`, jobs.Identity{}},
	} {
		wantTenant(t, c.name, c.body, c.want)
	}
}

func TestAmbiguousMembers(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{}
	// Every place, and what leads there: repeated, and of a wrong type.
	for _, member := range append(append([]string{
		ownPlace, contextPlace, `"view":{`, `"team":{`, `"event":{`, `"user":{`, `"enterprise":{`, `"authorizations":[`, `"is_enterprise_install":false`,
		`"team_id":"T9"`, `"enterprise_id":"E6"`, `"team_id":"T10"`, `"context_team_id":"T11"`, `"api_app_id":"A1"`,
	}, teamPlaces...), enterprisePlaces...) {
		name, _, _ := strings.Cut(member, ":")
		bodies[member+" repeated"] = change(t, everywhere, member, name+":null,"+member)
		bodies[member+" in escapes"] = change(t, everywhere, member, `"\u00`+hexOf(name[1])+name[2:]+":null,"+member)
		bodies[member+" a number"] = change(t, everywhere, member, name+`:7,"x`+member[1:])
		bodies[member+" an array of a number"] = change(t, everywhere, member, name+`:[7],"x`+member[1:])
	}
	bodies["view a text"] = `{"view":"V1"}`
	bodies["event a text"] = `{"event":"x"}`
	bodies["authorizations an object"] = `{"authorizations":{"team_id":"T1"}}`
	bodies["an authorization as a text"] = `{"authorizations":["T1"]}`
	bodies["a second authorization as a text"] = `{"authorizations":[{},"T1"]}`
	bodies["a team as an object"] = `{"team_id":{"id":"T1"}}`
	for name, body := range bodies {
		for _, contentType := range []string{asJSON, asForm} {
			text := body
			if contentType == asForm {
				text = interaction(body)
			}
			deliveries, err := New().Parse(contentType, []byte(text))
			if deliveries != nil || !errors.Is(err, providers.ErrMalformed) || !errors.Is(err, canonical.ErrShape) {
				t.Errorf("%s: %+v, %v; want ErrMalformed\n%s", name, deliveries, err, body)
			}
		}
	}
}

func hexOf(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	team, enterprise := ids("team_id", "T1")[0], ids("enterprise_id", "E1")[0]
	base := url.Values{
		"command": {"/weather"}, "text": {"94070; payload=1"}, "token": {"x"}, "team_id": {"T1"}, "enterprise_id": {"E1"}, "is_enterprise_install": {"false"},
		"api_app_id": {"A1"}, "channel_id": {"C1"}, "user_id": {"U1"}, "trigger_id": {"13345224609.738474920.8088930838d88f008e0"},
		"response_url": {"https://hooks.slack.com/commands/T1/1/x"},
	}
	whole := providers.Delivery{
		VendorID: "13345224609.738474920.8088930838d88f008e0", Type: "slash_command", Tenant: team,
		Named: ids("api_app_id", "A1", "enterprise_id", "E1", "team_id", "T1"), OrderingKey: "C1",
	}
	// The SHA-256 of the URL above.
	const response = "response_url:b5b687118d2606dca60b46297dfacc27936988875b409994a37b015e09bf7030"
	for _, c := range []struct {
		name string
		set  url.Values
		want func(*providers.Delivery)
	}{
		{"as it is", nil, func(*providers.Delivery) {}},
		{"an organization's", url.Values{"is_enterprise_install": {"true"}}, func(d *providers.Delivery) { d.Tenant = enterprise }},
		{"said otherwise", url.Values{"is_enterprise_install": {"True"}}, func(*providers.Delivery) {}},
		{"an organization's that is not named", url.Values{"is_enterprise_install": {"true"}, "enterprise_id": nil}, func(d *providers.Delivery) { d.Named = ids("api_app_id", "A1", "team_id", "T1") }},
		{"no team", url.Values{"team_id": nil}, func(d *providers.Delivery) {
			d.Tenant, d.Named = enterprise, ids("api_app_id", "A1", "enterprise_id", "E1")
		}},
		{"an empty team", url.Values{"team_id": {""}}, func(d *providers.Delivery) {
			d.Tenant, d.Named = enterprise, ids("api_app_id", "A1", "enterprise_id", "E1")
		}},
		{"nobody", url.Values{"team_id": nil, "enterprise_id": {""}, "api_app_id": nil}, func(d *providers.Delivery) { d.Tenant, d.Named = jobs.Identity{}, nil }},
		{"no channel", url.Values{"channel_id": nil}, func(d *providers.Delivery) { d.OrderingKey = "" }},
		{"two channels", url.Values{"channel_id": {"C1", "C2"}}, func(d *providers.Delivery) { d.OrderingKey = "" }},
		{"no trigger", url.Values{"trigger_id": nil}, func(d *providers.Delivery) { d.VendorID = response }},
		{"two triggers", url.Values{"trigger_id": {"1", "2"}}, func(d *providers.Delivery) { d.VendorID = response }},
		{"no trigger and no URL", url.Values{"trigger_id": nil, "response_url": nil}, func(d *providers.Delivery) { d.VendorID = "" }},
		{"no trigger and two URLs", url.Values{"trigger_id": nil, "response_url": {"a", "b"}}, func(d *providers.Delivery) { d.VendorID = "" }},
		{"no command", url.Values{"command": nil}, func(d *providers.Delivery) { d.Type, d.VendorID = "", "" }},
		{"a probe of a command", url.Values{"ssl_check": {"1"}}, func(*providers.Delivery) {}},
		{"a probe", url.Values{"ssl_check": {"1"}, "command": nil}, func(d *providers.Delivery) { d.Type, d.VendorID = "ssl_check", "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			form := url.Values{}
			for _, fields := range []url.Values{base, c.set} {
				for name, values := range fields {
					form[name] = values
				}
			}
			body, want := form.Encode(), whole
			want.Hash = canonical.Raw([]byte(body))
			c.want(&want)
			if diff := cmp.Diff(want, read(t, asForm, body)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
