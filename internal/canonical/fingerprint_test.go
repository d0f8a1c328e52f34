package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, form string }{
		{"blanks go", " { \"a\" :\t[ 1 ,\r\n{ } , [ ] ] } ", `{"a":[1,{},[]]}`},
		{"members are sorted, everywhere", `{"b":{"d":1,"c":2},"a":[{"z":0,"y":0}]}`, `{"a":[{"y":0,"z":0}],"b":{"c":2,"d":1}}`},
		{"by bytes, not by UTF-16 units", "{\"\U0001F600\":1,\"\uFB33\":2,\"\u00e9\":3,\"Z\":4,\"\":5,\"a\":6,\"aa\":7}", "{\"\":5,\"Z\":4,\"a\":6,\"aa\":7,\"\u00e9\":3,\"\uFB33\":2,\"\U0001F600\":1}"},
		{"escaped names by their text", `{"\u0062":1,"a":2,"\u0061\u0061":3}`, `{"a":2,"aa":3,"b":1}`},
		{"escaped names in an inner object", `{"\u0062":{"\u0064":1,"\u0063":2},"\u0061":{"\u0066":3,"\u0065":4}}`, `{"a":{"e":4,"f":3},"b":{"c":2,"d":1}}`},
		{"numbers stay as written", `[1,1.0,1e0,-0,12345678901234567,0.1E+2]`, `[1,1.0,1e0,-0,12345678901234567,0.1E+2]`},
		{"strings have one spelling", `"\u0041\/\"\\\b\f\n\r\t\u0008\u000C\u000a\u000D\u0009\u001F\u007f\u00E9\u2028\uD83D\ude00"`, "\"A/\\\"\\\\\\b\\f\\n\\r\\t\\b\\f\\n\\r\\t\\u001f\x7f\u00e9\u2028\U0001F600\""},
		{"NUL", `"\u0000"`, `"\u0000"`},
		{"half pairs stay escapes, in lower case", `"\uD800 \uDC00\uD800 \uD83D\uD83D\uDE00"`, "\"\\ud800 \\udc00\\ud800 \\ud83d\U0001F600\""},
		{"what looks like a pair and is none", `"\ud83d\nde00 \ud83dxude00 \ud83dde00de"`, `"\ud83d\nde00 \ud83dxude00 \ud83dde00de"`},
		{"invalid UTF-8 stays", "{\"\xff\":\"\xed\xa0\x80\\n\xc0\"}", "{\"\xff\":\"\xed\xa0\x80\\n\xc0\"}"},
		{"arrays keep their order", `[2,1,null,false,true,"b","a"]`, `[2,1,null,false,true,"b","a"]`},
		{"a bare value", ` null `, `null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Hash([]byte(c.body)); got != sumOf(c.form) {
				t.Errorf("%s: not the fingerprint of %s", c.body, c.form)
			}
		})
	}
}

func TestDifferentBodies(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`12345678901234567`, `12345678901234568`, `1`, `1.0`, `1e0`, `"1"`, `-1`, `0`, `-0`, `null`, `"null"`, `true`, `false`, `""`, `[]`, `{}`,
		`[1,2]`, `[2,1]`, `[[1],2]`, `[[1,2]]`, `[1,[2]]`, `{"a":1}`, `{"a":"1"}`, `{"A":1}`, `{"a":1,"b":1}`, `{"a":{"b":1}}`, `["a",1]`, `["a:1"]`,
		`"\\u0041"`, `"A"`, `"\ud800"`, `"\\ud800"`, `"\udc00"`, "\"\xed\xa0\x80\"", "\"\xff\"", "\"\xfe\"", `"\ufffd"`, `"a\nb"`, `"a\\nb"`,
		`{"a":1,"a":1}`, `{"a":1,"a":2}`, `{"a":2,"a":1}`, `not json`, ``,
		`{"a,b":1}`, `{"a":",b"}`, `["a","b"]`, `["a,b"]`, `["a\",\"b"]`,
	}
	seen := map[string]string{}
	for _, body := range bodies {
		sum := Hash([]byte(body))
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s have one fingerprint", body, other)
		}
		seen[sum] = body
	}
}

func TestOmit(t *testing.T) {
	t.Parallel()
	first := `{"id":"1","attempt":1,"data":{"attempt":1}}`
	same := []string{
		`{"id":"1","attempt":2,"data":{"attempt":1}}`,
		`{"id":"1","data":{"attempt":1}}`,
		`{"attempt":{"deep":[1]},"id":"1","data":{"attempt":1}}`,
		`{"\u0061ttempt":3,"id":"1","data":{"attempt":1}}`,
		`{"attempt":1,"attempt":2,"id":"1","data":{"attempt":1}}`,
		`{"attempt":{"a":1,"a":2},"id":"1","data":{"attempt":1}}`,
	}
	other := []string{
		`{"id":"1","attempt":1,"data":{"attempt":2}}`,
		`{"id":"1","attempt":1,"data":{}}`,
		`{"id":"1","Attempt":1,"data":{"attempt":1}}`,
		`{"id":"1","attempt ":1,"data":{"attempt":1}}`,
		`[{"id":"1","data":{"attempt":1}}]`,
	}
	want := Hash([]byte(first), "attempt", "unused")
	for _, body := range same {
		if Hash([]byte(body), "attempt", "unused") != want {
			t.Errorf("%s differs from %s without attempt", body, first)
		}
		if Hash([]byte(body)) == Hash([]byte(first)) {
			t.Errorf("%s is as %s with attempt", body, first)
		}
	}
	for _, body := range other {
		if Hash([]byte(body), "attempt", "unused") == want {
			t.Errorf("%s is as %s without attempt", body, first)
		}
	}
	if Hash([]byte(`{"id":"1","data":{"attempt":1}}`)) != want {
		t.Error("what is left out leaves a trace")
	}
}

func TestRawFallback(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"a":1,"a":1}`, ` {"a":1,"b":2,"\u0061":3}`, `{"x":[{"a":1,"a":1}]} `, "{\"\\ud800\":1,\"\xed\xa0\x80\":2}",
		`{"a":1`, ``, `x`, `{"a":1}{"a":1}`,
	} {
		sum := sha256.Sum256([]byte(body))
		if got, want := Hash([]byte(body)), "r1:"+hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
	var d Doc
	if err := d.Parse([]byte(`[ {"a":1,"a":2} , {"a":1} ]`)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for v := range d.Root().Elements() {
		got = append(got, v.Fingerprint())
	}
	if got[0] != Raw([]byte(`{"a":1,"a":2}`)) || got[1] != Hash([]byte(`{"a":1}`)) {
		t.Errorf("an element's fingerprint is not that of its bytes: %q", got)
	}
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	for _, size := range []int{flushAt/2 - 3, flushAt / 2, flushAt - 2, flushAt, 3 * flushAt, 100_000} {
		for _, unit := range []string{"x", `\u00e9`, `\n`} {
			text := strings.Repeat(unit, size)
			body := []byte(`{"b":"` + text + `","a":["` + text + `",1],"` + text + `":0}`)
			checkFingerprint(t, body)
			changed := bytes.Replace(body, []byte(`",1]`), []byte(`y",1]`), 1)
			if Hash(body) == Hash(changed) {
				t.Errorf("%d times %s: a change at the end is not seen", size, unit)
			}
		}
	}
	for _, name := range []string{"20 kB", "1 MB"} {
		checkFingerprint(t, bodies()[name], "webhook_delivery_attempt")
	}
}

// For texts and small integers the canonical form is RFC 8785's.
func TestFormRFC8785(t *testing.T) {
	t.Parallel()
	for _, body := range []string{notification, `{"b":[true,"\u20ac\u000f\nA'B\"\\\""],"a":{"":9007199254740991}}`} {
		value := jsontext.Value(body)
		if err := value.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if got := Hash([]byte(body)); got != sumOf(string(value)) {
			t.Errorf("%.40s…: not the fingerprint of %.200s", body, value)
		}
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	const want = "r1:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180's example
	if got := Raw([]byte("abc")); got != want {
		t.Errorf("got %s", got)
	}
}

func FuzzFingerprint(f *testing.F) {
	for _, text := range documents {
		f.Add([]byte(text), "a")
	}
	f.Add([]byte(notification), "webhook_delivery_attempt")
	f.Fuzz(func(t *testing.T, body []byte, omit string) {
		checkFingerprint(t, body, omit)
		if got := Hash(body, omit); len(got) != 67 || got[:3] != canonicalPrefix && got != Raw(body) {
			t.Errorf("%q: %s", body, got)
		}
	})
}
