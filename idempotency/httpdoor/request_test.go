package httpdoor_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"webhook-gateway/idempotency/httpdoor"
)

func TestHeaderForms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		lines []string
		want  string // empty: refused
	}{
		{[]string{"abc"}, "abc"},
		{[]string{`"abc"`}, "abc"},
		{[]string{` "abc"	`}, "abc"},
		{[]string{`"a\"b\\"`}, `a"b\`},
		{[]string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		{[]string{"a, b"}, "a, b"},
		{[]string{strings.Repeat("x", 255)}, strings.Repeat("x", 255)},
		{nil, ""},
		{[]string{""}, ""},
		{[]string{`""`}, ""},
		{[]string{`"abc`}, ""},
		{[]string{`"abc"x`}, ""},
		{[]string{`"a\b"`}, ""},
		{[]string{`"abc\`}, ""},
		{[]string{"abc", "abc"}, ""},
		{[]string{"a\x00b"}, ""},
		{[]string{"é"}, ""},
		{[]string{strings.Repeat("x", 256)}, ""},
	} {
		if got, err := httpdoor.ParseKey(tc.lines); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%.40q: %.40q, %v, want %.40q", tc.lines, got, err, tc.want)
		}
	}
	a := newAPI(t)
	a.want(request("abc"), 201, 1)
	a.want(request(`"abc"`), 201, 1)
	w := a.want(request("abc", func(r *http.Request) { r.Header.Add("Idempotency-Key", "abc") }), 400, 1)
	if code(w) != "BAD_KEY" || w.Header().Get("Link") != `<https://example.com/keys>; rel="help"` {
		t.Errorf("%s with %v", code(w), w.Header())
	}
	a.want(request(strings.Repeat("x", 600)), 400, 1)
}

func TestWithoutKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(request(""), 201, 1)
	a.want(request(""), 201, 2)
	a.door.Required = true
	if w := a.want(request(""), 400, 2); code(w) != "BAD_KEY" || w.Header().Get("Link") == "" {
		t.Errorf("%s with %v", code(w), w.Header())
	}
	// Requests that change nothing need no key.
	a.want(request("", func(r *http.Request) { r.Method = http.MethodGet }), 201, 3)
	a.want(request("k", func(r *http.Request) { r.Method = http.MethodGet }), 201, 4)
	if n := a.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestTooLongBody(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.door.MaxBody = 16
	a.want(request("k"), 201, 1) // 16 bytes
	a.want(request("l", func(r *http.Request) { *r = *withBody(r, `{"name": "paper"}`) }), 413, 1)
	a.want(request("m", func(r *http.Request) { r.Body = brokenBody{r.Body} }), 400, 1)
	if n := a.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

type brokenBody struct{ closer interface{ Close() error } }

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
func (b brokenBody) Close() error           { return b.closer.Close() }
