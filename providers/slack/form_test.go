package slack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/jobs"
)

func TestCommandsWithSigns(t *testing.T) {
	t.Parallel()
	team := jobs.Identity{Name: "team_id", Value: "T1"}
	for _, body := range []string{
		"command=%2Fx&trigger_id=1.2&text=a;b&team_id=T1",
		"command=%2Fx&trigger_id=1.2&text=100%&team_id=T1",
		"text=100%25;%zz%&command=%2fx&trigger_id=1%2E2&team_id=T1&%=%",
		"&&command=/x&=&trigger_id=1.2&team%5Fid=T1&",
		"text=a=b&command==&trigger_id=1.2&team_id=%541",
		"team;id=T2&command=/x;team_id=T2&trigger_id=1.2&team_id=T1",
	} {
		d := read(t, asForm, body)
		if d.Type != "slash_command" || d.VendorID != "1.2" || d.Tenant != team {
			t.Errorf("%s: %+v", body, d)
		}
	}
}

func TestFunctionTokenIsNotKept(t *testing.T) {
	t.Parallel()
	const executed = `{"team_id":"T1","api_app_id":"A1","event":{"type":"function_executed","function_execution_id":"Fx1","bot_access_token":"xwfp-1-22-abc"},"type":"event_callback","event_id":"Ev1"}`
	clicked := change(t, click, `"token":"XXYYZZ"`, `"token":"XXYYZZ","function_data":{"execution_id":"Fx1"},"bot_access_token":"xwfp-1-22-abc"`)
	unescaped := "payload=" + clicked
	for name, c := range map[string][2]string{
		"an event":            {asJSON, executed},
		"with blanks":         {asJSON, strings.Replace(executed, `_token":"`, "_token\"\t: \"", 1)},
		"an interaction":      {asForm, interaction(clicked)},
		"a lower-case escape": {asForm, strings.NewReplacer("%3A", "%3a", "%2C", "%2c").Replace(interaction(clicked))},
		"no escapes":          {asForm, unescaped},
		"blanks in a payload": {asForm, interaction(strings.Replace(clicked, `_token":"xwfp`, `_token" : "xwfp`, 1))},
	} {
		body := []byte(c[1])
		clean := string(New().Redact(body))
		if strings.Contains(clean, "xwfp") || !strings.Contains(clean, "bot_access_token") || string(body) != c[1] {
			t.Errorf("%s: %s", name, clean)
		}
		other := strings.Replace(c[1], "xwfp-1-22-abc", "xwfp-longer-than-the-other", 1)
		if got := string(New().Redact([]byte(other))); got != clean {
			t.Errorf("%s: another token leaves\n%s, want\n%s", name, got, clean)
		}
		want := read(t, c[0], c[1])
		for _, again := range []string{other, clean} {
			if diff := cmp.Diff(want, read(t, c[0], again)); diff != "" {
				t.Errorf("%s: with another token (-want +got):\n%s", name, diff)
			}
		}
	}
	for _, body := range []string{
		mention, interaction(click), `{"bot_access_token":null}`, `{"bot_access_token":""}`, `{"text":"bot_access_token"}`,
		`{"text":"a \"bot_access_token\":\"b\" c"}`, interaction(`{"text":"a \"bot_access_token\":\"b\" c"}`), "text=bot_access_token",
	} {
		if got := string(New().Redact([]byte(body))); got != body {
			t.Errorf("%s: became %s", body, got)
		}
	}
	escaped := interaction(`{"bot_access_token":"a\"b\\c%20","x":"y"}`)
	if got := string(New().Redact([]byte(escaped))); got != interaction(`{"bot_access_token":"","x":"y"}`) {
		t.Errorf("an escaped token leaves %s", got)
	}
}
