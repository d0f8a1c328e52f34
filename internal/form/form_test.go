package form

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(body string) url.Values {
	fields := make(url.Values)
	for name, value := range Fields([]byte(body)) {
		fields.Add(Unescape(name), Unescape(value))
	}
	return fields
}

func TestFields(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]url.Values{
		"":                   {},
		"&&":                 {},
		"a":                  {"a": {""}},
		"=":                  {"": {""}},
		"a=b;c=d":            {"a": {"b;c=d"}},
		"a=b&a=c":            {"a": {"b", "c"}},
		"a=b=c&d==":          {"a": {"b=c"}, "d": {"="}},
		"a=100%":             {"a": {"100%"}},
		"a=%zz&b=%4&c=%4g":   {"a": {"%zz"}, "b": {"%4"}, "c": {"%4g"}},
		"a=%41%2b+%2F%e9&%=": {"a": {"A+ /\xe9"}, "%": {""}},
		"%61=1&a=%25%34%31":  {"a": {"1", "%41"}},
	} {
		if diff := cmp.Diff(want, read(body)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", body, diff)
		}
	}
}

// Everything that the standard library accepts must give the same result here.
func FuzzFields(f *testing.F) {
	for _, body := range []string{"command=%2Fx&team_id=T1&team_id=T2", "a=b&&payload=%7B%7D+", "ssl%5Fcheck=1", "a=%", "a=b;c"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		want, err := url.ParseQuery(body)
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, read(body)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
