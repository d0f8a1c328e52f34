package idempotency_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

func job() uuid.UUID { return uuid.MustParse("0192c1f0-0000-7000-8000-000000000001") }

func deliveryKey(id string) idempotency.Key {
	return idempotency.MustKey(idempotency.DeliveryKey(job(), id))
}

func TestReadableKeys(t *testing.T) {
	t.Parallel()
	tool, err := idempotency.ToolKey("job_17", 3, "refund")
	if err != nil {
		t.Fatal(err)
	}
	call, err := idempotency.ToolCallKey("job_17", 3, "refund", []byte(`{"b":1,"a":2}`))
	if err != nil {
		t.Fatal(err)
	}
	same, err := idempotency.ToolCallKey("job_17", 3, "refund", []byte(`{ "a": 2, "b": 1 }`))
	if err != nil || same != call {
		t.Errorf("arguments in another order: %s, %v, want %s", same, err, call)
	}
	client, err := idempotency.ClientKey(idempotency.Principal{}, "abc")
	if err != nil {
		t.Fatal(err)
	}
	const id = "0192c1f0-0000-7000-8000-000000000001/"
	for got, want := range map[idempotency.Key]string{
		tool:                              "job_17:3:refund",
		client:                            "anonymous:abc",
		mustKey(t, "a:b", "100%", "x\ny"): "a%3Ab:100%25:x%0Ay",
		mustKey(t, "é", " x "):            "é: x ",
		deliveryKey("evt_1"):              id + "evt_1",
		deliveryKey("a/b:c d"):            id + "a/b:c d",
		deliveryKey("50%\x00\xff"):        id + "50%25%00%FF",
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if !strings.HasPrefix(call.String(), "job_17:3:refund:c1:") {
		t.Errorf("got %q", call)
	}
}

func TestKeysAreUnique(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0", 64)
	long := strings.Repeat("x", 600)
	longer := deliveryKey(long).String()
	ids := []string{
		"a", "A", "a ", " a", "é", "e\u0301", "%", "%25", "\x00", "%00", "\\x00", "\xff", "%FF", "\xc3", "%C3", "\u00ff",
		"\ufffd", "\x7f", "/", "sha256:" + digest, "%73ha256:" + digest, "sha256%3A" + digest, "\x73ha256:",
		long, long + "x", longer[37:], strings.Repeat("x", 475), strings.Repeat("x", 476), strings.Repeat("\xff", 200),
		strings.Repeat("a", 9000), "sha256:" + strings.Repeat("x", 470),
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	keys := map[string]string{}
	for _, id := range ids {
		k := deliveryKey(id).String()
		if other, taken := keys[k]; taken {
			t.Errorf("%.40q and %.40q are both %.80q", id, other, k)
		}
		keys[k] = id
		wantStorable(t, k)
	}
	parts := map[string][]string{}
	for _, p := range [][]string{
		{"ab", "c"}, {"a", "bc"}, {"abc"}, {"a:b", "c"}, {"a", "b:c"}, {"a", "b", "c"}, {"a%3Ab", "c"}, {"a%", "3Ab", "c"},
		{"sha256", digest}, {"sha256:" + digest}, {"%73ha256", digest}, {long}, {long, "x"}, {"x" + long},
	} {
		k := mustKey(t, p...).String()
		if other, taken := parts[k]; taken {
			t.Errorf("%.40q and %.40q are both %.80q", p, other, k)
		}
		parts[k] = p
		wantStorable(t, k)
	}
}

func wantStorable(t *testing.T, key string) {
	t.Helper()
	if len(key) < 1 || len(key) > idempotency.MaxKey || !utf8.ValidString(key) ||
		strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("%.80q (%d bytes) is not a key", key, len(key))
	}
}

func FuzzDeliveryKeys(f *testing.F) {
	f.Add("evt_1", "evt_2")
	f.Add("%00", "\x00")
	f.Add("sha256:x", "%73ha256:x")
	f.Add(strings.Repeat("x", 500), strings.Repeat("\xff", 170))
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, errA := idempotency.DeliveryKey(job(), a)
		kb, errB := idempotency.DeliveryKey(job(), b)
		if errors.Is(errA, idempotency.ErrKey) != (a == "") || errors.Is(errB, idempotency.ErrKey) != (b == "") {
			t.Errorf("%q and %q: %v and %v", a, b, errA, errB)
		}
		if (a == b) != (ka == kb) {
			t.Errorf("%q and %q: %q and %q", a, b, ka, kb)
		}
		if a != "" {
			wantStorable(t, ka.String())
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add("ab", "c", "a", "bc")
	f.Add("a:b", "c", "a", "b:c")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, errOne := idempotency.NewKey(a, b)
		two, errTwo := idempotency.NewKey(c, d)
		if (errOne == nil) != (a != "" && b != "") {
			t.Errorf("%q %q: %v", a, b, errOne)
		}
		if errOne == nil && errTwo == nil && (one == two) != (a == c && b == d) {
			t.Errorf("%q %q and %q %q: %q and %q", a, b, c, d, one, two)
		}
	})
}

func TestMissingPart(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func() (idempotency.Key, error){
		"no parts":      func() (idempotency.Key, error) { return idempotency.NewKey() },
		"an empty part": func() (idempotency.Key, error) { return idempotency.NewKey("a", "") },
		"no job":        func() (idempotency.Key, error) { return idempotency.ToolKey("", 1, "refund") },
		"no tool":       func() (idempotency.Key, error) { return idempotency.ToolKey("job", 1, "") },
		"no step":       func() (idempotency.Key, error) { return idempotency.ToolKey("job", -1, "refund") },
		"no call step":  func() (idempotency.Key, error) { return idempotency.ToolCallKey("job", -1, "refund", nil) },
		"no choice":     func() (idempotency.Key, error) { return idempotency.ClientKey(idempotency.Principal{Subject: "u"}, "") },
		"no delivery":   func() (idempotency.Key, error) { return idempotency.DeliveryKey(job(), "") },
		"nil job":       func() (idempotency.Key, error) { return idempotency.DeliveryKey(uuid.Nil, "evt_1") },
		"no subject": func() (idempotency.Key, error) {
			return idempotency.ClientKey(idempotency.Principal{Actors: []string{"agent"}}, "k")
		},
		"an empty actor": func() (idempotency.Key, error) {
			return idempotency.ClientKey(idempotency.Principal{Subject: "u", Actors: []string{""}}, "k")
		},
	} {
		if k, err := build(); !errors.Is(err, idempotency.ErrKey) || k != (idempotency.Key{}) {
			t.Errorf("%s: %q, %v", name, k, err)
		}
	}
}

// A wrong constant at the start of a program stops it there.
func TestMustPanics(t *testing.T) {
	t.Parallel()
	if got := idempotency.MustScope("tool.refund"); got != mustScope(t, "tool.refund") {
		t.Errorf("got the scope %s", got)
	}
	if got := idempotency.MustKey(idempotency.NewKey("sync", "contacts")); got.String() != "sync:contacts" {
		t.Errorf("got the key %s", got)
	}
	for name, wire := range map[string]func(){
		"a scope without a retention": func() { idempotency.MustScope("run.start") },
		"a key without a part":        func() { idempotency.MustKey(idempotency.NewKey("sync", "")) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, idempotency.ErrScope) && !errors.Is(err, idempotency.ErrKey) {
					t.Errorf("%s: %v", name, err)
				}
			}()
			wire()
		}()
	}
}

func TestPrincipalsAreSeparate(t *testing.T) {
	t.Parallel()
	keys := map[idempotency.Key]string{}
	for _, p := range []idempotency.Principal{
		{}, {Subject: "user"}, {Subject: "other"}, {Subject: "anonymous"},
		{Subject: "user", Actors: []string{"agent"}}, {Subject: "user", Actors: []string{"agent", "sub"}},
		{Subject: "user", Actors: []string{"sub", "agent"}}, {Subject: "useragent"}, {Subject: "user", Actors: []string{"agentsub"}},
		{Subject: "agent", Actors: []string{"user"}}, {Subject: "user5:agent"}, {Subject: "4:user5:agent"},
	} {
		k, err := idempotency.ClientKey(p, "k")
		again, _ := idempotency.ClientKey(p, "k")
		if err != nil || k != again {
			t.Errorf("%+v: %s, then %s, %v", p, k, again, err)
		}
		if other, taken := keys[k]; taken {
			t.Errorf("%+v and %s share %s", p, other, k)
		}
		keys[k] = fmt.Sprintf("%+v", p)
	}
}

func TestScopeRetention(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{
		"tool.email.send":            30 * 24 * time.Hour,
		"tool.x":                     30 * 24 * time.Hour,
		"surface.saved_search.start": 24 * time.Hour,
		"http.orders.create":         24 * time.Hour,
	} {
		s, err := idempotency.NewScope(name)
		if err != nil || s.Retention() != want || s.String() != name {
			t.Errorf("%s: %s, %v, want %s", name, s.Retention(), err, want)
		}
	}
	for _, name := range []string{"", "tool", "tool.", "webhook", "webhook.github", "run.start", "Tool.x", "tool..x", "tool.x\n", "tool.é", "tool." + strings.Repeat("x", 96)} {
		if s, err := idempotency.NewScope(name); !errors.Is(err, idempotency.ErrScope) || s != (idempotency.Scope{}) {
			t.Errorf("%q: %+v, %v, want ErrScope", name, s, err)
		}
	}
	if s, err := idempotency.NewScopeFor("run.start", 36*time.Hour); err != nil || s.Retention() != 36*time.Hour || s.String() != "run.start" {
		t.Errorf("run.start for 36 hours: %+v, %v", s, err)
	}
	for name, d := range map[string]time.Duration{"run": time.Hour, "run.start": 0, "run.stop": -1} {
		if s, err := idempotency.NewScopeFor(name, d); !errors.Is(err, idempotency.ErrScope) || s != (idempotency.Scope{}) {
			t.Errorf("%q for %s: %+v, %v, want ErrScope", name, d, s, err)
		}
	}
}

func TestHashesNameTheirMethod(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"c1:" + strings.Repeat("0f", 32), "r1:" + strings.Repeat("0f", 32), "h2:" + strings.Repeat("0f", 32)} {
		if h, err := idempotency.ParseHash(text); err != nil || h.String() != text || h.Method() != text[:2] {
			t.Errorf("%s: %s by %s, %v", text, h, h.Method(), err)
		}
	}
	for _, text := range []string{"", "c1:", strings.Repeat("0", 64), "c1:" + strings.Repeat("0F", 32), "c1:" + strings.Repeat("0", 65), "c1:" + strings.Repeat("0", 63) + "\n"} {
		if _, err := idempotency.ParseHash(text); !errors.Is(err, idempotency.ErrHash) {
			t.Errorf("%q: %v, want ErrHash", text, err)
		}
	}
}

func TestContent(t *testing.T) {
	t.Parallel()
	hash := func(body string, omit ...string) string {
		return idempotency.Content([]byte(body), omit...).Current().String()
	}
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"order and blanks":        {`{"a":1,"b":[1,2]}`, "{ \"b\": [1, 2],\n\"a\": 1 }", true},
		"order of elements":       {`[1,2]`, `[2,1]`, false},
		"spelling of a string":    {`"é"`, `"\u00e9"`, true},
		"a number's lexeme":       {`1`, `1.0`, false},
		"digits beyond a double":  {`12345678901234567`, `12345678901234568`, false},
		"raw bytes":               {`not json`, `not  json`, false},
		"a repeated member":       {`{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		"a counter of attempts":   {`{"id":1,"attempt":1}`, `{"id":1,"attempt":2}`, true},
		"a counter further below": {`{"id":{"attempt":1}}`, `{"id":{"attempt":2}}`, false},
	} {
		if got := hash(tc.a, "attempt") == hash(tc.b, "attempt"); got != tc.same {
			t.Errorf("%s: same is %v, want %v", name, got, tc.same)
		}
	}
}
