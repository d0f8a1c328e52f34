package canonical

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func root(t *testing.T, body string) Value {
	t.Helper()
	var d Doc
	if err := d.Parse([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return d.Root()
}

func TestMember(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 100)
	v := root(t, `{"skip":{"id":0,"a":[{"id":0}]}, "id":"x" ,"\u006eame":"y","twice":1,"tw\u0069ce":2,"thrice":1,"thrice":2,"thrice":3,"ID":1,"":"e","null":null,
		"`+strings.ReplaceAll(long, "n", `\u006e`)+`":"long","`+"\xff"+`":"odd","\ud800":"half"}`)
	for _, c := range []struct {
		name     string
		raw      string
		repeated bool
	}{
		{"id", `"x"`, false},
		{"ID", `1`, false},
		{"Id", ``, false},
		{"name", `"y"`, false},
		{`\u006eame`, ``, false},
		{"twice", `1`, true},
		{"thrice", `1`, true},
		{"", `"e"`, false},
		{"null", `null`, false},
		{"a", ``, false},
		{long, `"long"`, false},
		{long + "n", ``, false},
		{"\xff", `"odd"`, false},
		{"\uFFFD", ``, false},
		{"\xed\xa0\x80", `"half"`, false},
	} {
		got, repeated := v.Member(c.name)
		if string(got.Raw()) != c.raw || repeated != c.repeated {
			t.Errorf("%q: %s, repeated %v; want %s, %v", c.name, got.Raw(), repeated, c.raw, c.repeated)
		}
		want := c.raw
		if c.repeated {
			want = ""
		}
		if got := v.Only(c.name).Raw(); string(got) != want {
			t.Errorf("only %q: %s, want %s", c.name, got, want)
		}
	}
}

func TestKindsAndTexts(t *testing.T) {
	t.Parallel()
	v := root(t, ` [ null , true , false , -1.5e3 , "t\u00e9xt\n\ud800" , [ 1 , [] ] , { "a" : 1 } , "`+"\xff"+`"]`)
	type seen struct {
		Kind Kind
		Raw  string
		Text string
		True bool
	}
	var got []seen
	for e := range v.Elements() {
		got = append(got, seen{e.Kind(), string(e.Raw()), e.Text(), e.True()})
	}
	want := []seen{
		{Null, "null", "", false}, {Bool, "true", "", true}, {Bool, "false", "", false}, {Number, "-1.5e3", "", false},
		{String, `"t\u00e9xt\n\ud800"`, "t\u00e9xt\n\xed\xa0\x80", false}, {Array, "[ 1 , [] ]", "", false}, {Object, `{ "a" : 1 }`, "", false},
		{String, "\"\xff\"", "\xff", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
	if first := root(t, ` [ [7] , 8 ] `).First(); string(first.Raw()) != "[7]" || string(first.First().Raw()) != "7" {
		t.Errorf("first element %s", first.Raw())
	}
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	var none Value
	for _, v := range []Value{none, root(t, `1`), root(t, `[]`), root(t, `{}`), root(t, `[[],1]`).First(), root(t, `{"a ":[]}`), new(Doc).Root()} {
		member, repeated := v.Member("a")
		if member.Kind() != Absent || repeated || v.Text() != "" || v.True() {
			t.Errorf("%s is not empty", v.Raw())
		}
		for range v.Elements() {
			t.Errorf("%s has elements", v.Raw())
		}
		if first := v.First(); first.Kind() != Absent {
			t.Errorf("%s has a first element: %s", v.Raw(), first.Raw())
		}
	}
	if none.Kind() != Absent || none.Raw() != nil || none.Fingerprint() != Raw(nil) {
		t.Error("the zero Value is something")
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	body := []byte(`[ {"a" : 1} ,2]`)
	var d Doc
	if err := d.Parse(body); err != nil {
		t.Fatal(err)
	}
	for v := range d.Root().Elements() {
		raw := v.Raw()
		if &raw[0] != &body[2] || string(raw) != `{"a" : 1}` || cap(raw) != len(raw) {
			t.Errorf("got %q, with room for %d", raw, cap(raw))
		}
		break
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	var pool Pool
	for range 3 {
		if _, err := pool.Parse([]byte(`{"a":[1,`)); !errors.Is(err, ErrSyntax) {
			t.Fatal(err)
		}
		d, err := pool.Parse([]byte(`{"b":{"\u0064":1,"c":2}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Root().Fingerprint(); got != sumOf(`{"b":{"c":2,"d":1}}`) {
			t.Errorf("fingerprint %s", got)
		}
		pool.Put(d)
	}
}

func TestHugeSpaceReleased(t *testing.T) {
	t.Parallel()
	many := func(unit string, n int) string { return strings.Repeat(unit, n) }
	for name, c := range map[string]struct {
		body string
		kept bool
	}{
		"a notification":      {notification, true},
		"a long text":         {`"` + many("x", 1<<20) + `"`, true},
		"many containers":     {"[" + many("[],", 10_000) + "0]", true},
		"many elements":       {"[" + many("0,", 1<<17) + "0]", false},
		"a deep one":          {many("[", 9000) + many("]", 9000), false},
		"a long escaped text": {`"` + many(`\n`, 1<<17) + `"`, true},
		"a long escaped name": {`{"` + many(`\n`, 1<<17) + `":0}`, false},
		"many members":        {"{" + numbered(5000, `"%d":0`) + "}", false},
		"many escaped names":  {"{" + numbered(50, `"%d`+many(`\n`, 4000)+`":0`) + "}", false},
		"many small objects":  {"[" + numbered(2500, `{"%d`+many(`\n`, 30)+`":0,"b":0}`) + "]", true},
	} {
		var d Doc
		if err := d.Parse([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		d.Root().Fingerprint()
		if got := d.small(); got != c.kept {
			t.Errorf("%s: kept %v, want %v", name, got, c.kept)
		}
		if got := cap(d.form.out); got > 3*flushAt {
			t.Errorf("%s: %d bytes lie unhashed", name, got)
		}
	}
}

// numbered repeats a part n times, with commas between and each with its number.
func numbered(n int, part string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(part, i)
	}
	return strings.Join(parts, ",")
}

func TestStrict(t *testing.T) {
	t.Parallel()
	const body = `{"text":"x","number":1,"object":{"in":"y"},"null":null,"twice":"a","twice":"a","array":[1]}`
	for _, c := range []struct {
		name    string
		read    func(*Strict, Value) string
		want    string
		mistake string
	}{
		{"text", func(s *Strict, v Value) string { return s.Text(v, "text") }, "x", ""},
		{"null text", func(s *Strict, v Value) string { return s.Text(v, "null") }, "", ""},
		{"absent text", func(s *Strict, v Value) string { return s.Text(v, "absent") }, "", ""},
		{"number for text", func(s *Strict, v Value) string { return s.Text(v, "number") }, "", "number is of the wrong type"},
		{"object for text", func(s *Strict, v Value) string { return s.Text(v, "object") }, "", "object is of the wrong type"},
		{"repeated text", func(s *Strict, v Value) string { return s.Text(v, "twice") }, "", "twice is repeated"},
		{"object", func(s *Strict, v Value) string { return s.Text(s.Object(v, "object"), "in") }, "y", ""},
		{"absent object", func(s *Strict, v Value) string { return s.Text(s.Object(v, "absent"), "in") }, "", ""},
		{"array for object", func(s *Strict, v Value) string { return s.Text(s.Object(v, "array"), "in") }, "", "array is of the wrong type"},
		{"one of several kinds", func(s *Strict, v Value) string { return string(s.Member(v, "number", String, Number).Raw()) }, "1", ""},
		{"first mistake stays", func(s *Strict, v Value) string { return s.Text(v, "twice") + s.Text(v, "number") + s.Text(v, "text") }, "x", "twice is repeated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var s Strict
			got := c.read(&s, root(t, body))
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			switch err := s.Err(); {
			case c.mistake == "" && err != nil:
				t.Errorf("unexpected mistake: %v", err)
			case c.mistake != "" && (!errors.Is(err, ErrShape) || !strings.HasSuffix(err.Error(), ": "+c.mistake)):
				t.Errorf("mistake %v, want %q", err, c.mistake)
			}
		})
	}
}
