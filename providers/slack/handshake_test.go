package slack

import (
	"errors"
	"strings"
	"testing"

	"webhook-gateway/providers"
)

func TestHandshake(t *testing.T) {
	t.Parallel()
	const (
		challenge = "P7sFXA4o3HV2hTx4zb4zcQ9yrvuQs8pDh6EacOxmMRj0tJaXfQFF"
		body      = `{"token":"x","challenge":"` + challenge + `","type":"url_verification"}`
	)
	for _, c := range []struct {
		name, contentType, body, answer string
	}{
		{"as it is", asJSON, body, challenge},
		{"of another type", "text/plain", body, challenge},
		{"with blanks", "", " " + strings.ReplaceAll(body, ",", " , "), challenge},
		{"as long as allowed", asJSON, body + strings.Repeat(" ", maxHandshake-len(body)), challenge},
		{"too long", asJSON, body + strings.Repeat(" ", maxHandshake-len(body)+1), ""},
		{"no challenge", asJSON, `{"type":"url_verification"}`, ""},
		{"an empty challenge", asJSON, `{"challenge":"","type":"url_verification"}`, ""},
		{"a null challenge", asJSON, `{"challenge":null,"type":"url_verification"}`, ""},
		{"a number for a challenge", asJSON, `{"challenge":7,"type":"url_verification"}`, ""},
		{"two challenges", asJSON, `{"challenge":"a","challenge":"a","type":"url_verification"}`, ""},
		{"two types", asJSON, `{"challenge":"a","type":"event_callback","type":"url_verification"}`, ""},
		{"a challenge of two lines", asJSON, `{"challenge":"a\nb","type":"url_verification"}`, ""},
		{"a challenge that is not ASCII", asJSON, `{"challenge":"é","type":"url_verification"}`, ""},
		{"a DEL", asJSON, `{"challenge":"\u007f","type":"url_verification"}`, ""},
		{"an event", asJSON, mention, ""},
		{"an event that speaks of it", asJSON, change(t, mention, "hello", "url_verification"), ""},
		{"inside an array", asJSON, "[" + body + "]", ""},
		{"cut off", asJSON, body[:len(body)-1], ""},
		{"two", asJSON, body + body, ""},
		{"in a payload", asForm, interaction(body), ""},
		{"as a form", asForm, "type=url_verification&challenge=x", ""},
		{"nothing", asJSON, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer, ok := New().Handshake(c.contentType, []byte(c.body))
			if answer != c.answer || ok != (c.answer != "") {
				t.Errorf("got %q, %v; want %q", answer, ok, c.answer)
			}
		})
	}
}

// One that cannot be answered is not a delivery either, and nothing of it may be stored.
func TestURLVerification(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{asJSON, `{"type":"url_verification"}`},
		{asJSON, `{"type":"url_verification","challenge":""}`},
		{asJSON, `{"type":"url_verification","challenge":7}`},
		{asJSON, `{"type":"url_verification","challenge":"a\nb","team_id":"T1"}`},
		{asJSON, `{"type":"url_verification","challenge":"` + strings.Repeat("x", maxHandshake) + `"}`},
		{asForm, interaction(`{"type":"url_verification","challenge":"x"}`)},
	} {
		if got, err := New().Parse(c[0], []byte(c[1])); got != nil || !errors.Is(err, providers.ErrNoDelivery) {
			t.Errorf("%.80s: %+v, %v; want ErrNoDelivery", c[1], got, err)
		}
		if answer, ok := New().Handshake(c[0], []byte(c[1])); ok {
			t.Errorf("%.80s: answered %q", c[1], answer)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contentType, body string
		may, probe        bool
	}{
		{asForm, "ssl_check=1&token=x", true, true},
		{asForm + ";charset=utf-8", "token=x&ssl_check=1", true, true},
		{asForm, "ssl_check=1&command=%2Fx&team_id=T1&team_id=T1", true, true},
		{asForm, "ssl%5Fcheck=%31", true, true},
		{asForm, "ssl_check=0", true, false},
		{asForm, "ssl_check=", true, false},
		{asForm, "ssl_check=true", true, false},
		{asForm, "ssl_check=1%20", true, false},
		{asForm, "ssl_check=11", true, false},
		{asForm, "ssl_check=1&ssl_check=1", true, false},
		{asForm, "ssl_check=1&ssl_check=0", true, false},
		{asForm, "SSL_CHECK=1", true, false},
		{asForm, "command=%2Fx&text=ssl_check%3D1", true, false},
		{asForm, "payload=%7B%22ssl_check%22%3A1%7D", true, false},
		{asForm, "ssl_check=1&x=%zz", true, true},
		{asForm, `{"text":"&ssl_check=1&"}`, true, false},
		{asForm, "", true, false},
		{asJSON, "ssl_check=1", false, false},
		{"", "ssl_check=1", false, false},
		{"multipart/form-data", "ssl_check=1", false, false},
	} {
		if may := New().MayProbe(c.contentType); may != c.may {
			t.Errorf("%s: may be a probe %v, want %v", c.contentType, may, c.may)
		}
		if probe := New().Probe(c.contentType, []byte(c.body)); probe != c.probe {
			t.Errorf("%s, %s: a probe %v, want %v", c.contentType, c.body, probe, c.probe)
		}
	}
}
