package slack

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func FuzzParse(f *testing.F) {
	for _, body := range []string{
		mention, click, `[]`, `{"type":"app_rate_limited","minute_rate_limited":1}`, `{"type":"dialog_x","action_ts":"1"}`, `{"view":{},"event":null,"user":"U"}`,
		`{"event":{"bot_access_token" : "xwfp-1"},"bot_access_token":"a\"b"}`, `{"type":"url_verification"}`,
		`{"authorizations":[null,{"team_id":"T"}],"team":"T","is_enterprise_install":"true","enterprise":"E"}`, ``,
	} {
		f.Add(asJSON, []byte(body))
		f.Add(asForm, []byte(interaction(body)))
	}
	for _, v := range vectors(f) {
		f.Add(asForm, []byte(v.Body))
	}
	p := New()
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		got, err := p.Parse(contentType, body)
		again, _ := New().Parse(contentType, bytes.Clone(body))
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("a provider that was used before differs from a new one:\n%s", diff)
		}
		answer, shook := p.Handshake(contentType, body)
		if shook && (answer == "" || strings.Trim(answer, printable) != "" || p.Probe(contentType, body)) {
			t.Errorf("handshake %q", answer)
		}
		if err != nil {
			if !errors.Is(err, providers.ErrMalformed) && !errors.Is(err, providers.ErrNoDelivery) || got != nil {
				t.Fatalf("%+v, %v", got, err)
			}
			return
		}
		if len(got) != 1 || got[0].Body != nil {
			t.Fatalf("%+v", got)
		}
		d := got[0]
		if clean := p.Redact(body); d.Hash != canonical.Raw(clean) && !strings.HasPrefix(d.Hash, "c1:") {
			t.Errorf("fingerprint %s", d.Hash)
		}
		if d.Tenant != (jobs.Identity{}) && (d.Tenant.Value == "" || !slices.Contains(d.Named, d.Tenant)) {
			t.Errorf("tenant %v of %v", d.Tenant, d.Named)
		}
		if slices.Contains(d.Named, jobs.Identity{}) || len(slices.Compact(slices.Clone(d.Named))) != len(d.Named) {
			t.Errorf("named %v", d.Named)
		}
	})
}

const printable = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
