package clash

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
)

func TestDifferencesOfASlackForm(t *testing.T) {
	t.Parallel()
	inbox := `payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%221.2%22%7D&a=1`
	dropped := `a=2&payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%223.4%22%7D`
	got, n := differences([]byte(inbox), []byte(dropped), 10)
	want := []Difference{
		{Path: "a", Inbox: new("1"), Dropped: new("2")},
		{Path: "payload.trigger_id", Inbox: new(`"1.2"`), Dropped: new(`"3.4"`)},
	}
	if diff := cmp.Diff(want, got); diff != "" || n != 2 {
		t.Errorf("%d differ (-want +got):\n%s", n, diff)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("é", 400) + `"`
	for name, tc := range map[string]struct {
		inbox, dropped string
		want           []Difference
		all            int
	}{
		"alike":                {`{"a":1,"b":[]}`, `{"b":[],"a":1}`, nil, 0},
		"a number as written":  {`{"a":1.0}`, `{"a":1.00}`, []Difference{{"a", new("1.0"), new("1.00")}}, 1},
		"a large number":       {`[12345678901234567890]`, `[12345678901234567891]`, []Difference{{"[0]", new("12345678901234567890"), new("12345678901234567891")}}, 1},
		"more than are listed": {`[1,2,3]`, `[4,5,6]`, []Difference{{"[0]", new("1"), new("4")}, {"[1]", new("2"), new("5")}}, 3},
		"a long text":          {long, `""`, []Difference{{"", new(`"` + strings.Repeat("é", 299) + "…"), new(`""`)}}, 1},
		"a name with a dot":    {`{"a.b":1}`, `{"a":{"b":1}}`, []Difference{{`["a.b"]`, new("1"), nil}, {"a.b", nil, new("1")}}, 2},
		"a text and a number":  {`{"a":"1"}`, `{"a":1}`, []Difference{{"a", new(`"1"`), new("1")}}, 1},
		"no JSON":              {"a\n", "b\n", []Difference{{"(the whole body)", new("a\n"), new("b\n")}}, 1},
	} {
		got, all := differences([]byte(tc.inbox), []byte(tc.dropped), 2)
		if diff := cmp.Diff(tc.want, got); diff != "" || all != tc.all {
			t.Errorf("%s: %d differ, want %d (-want +got):\n%s", name, all, tc.all, diff)
		}
	}
}

func TestCompareBoundsValues(t *testing.T) {
	t.Parallel()
	const note = "one of the two has too many values to be compared"
	small, many := []byte(`{"a":1}`), []byte("["+strings.Repeat("[],", maxValues/2)+"0]")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(many) // to memory: it cannot fail
	_ = z.Close()
	for name, tt := range map[string]struct {
		kept    feed.Delivery
		dropped []byte
	}{
		"dropped":            {feed.Delivery{Body: small}, many},
		"in the inbox":       {feed.Delivery{Body: many}, small},
		"a form's fields":    {feed.Delivery{Body: []byte(strings.Repeat("a=1&", maxValues))}, small},
		"JSON in a form":     {feed.Delivery{Body: []byte("payload=" + strings.Repeat("%5b%5D%2C", maxValues/2))}, small},
		"gzip, in the inbox": {feed.Delivery{Body: zipped.Bytes(), ContentEncoding: "gzip"}, small},
	} {
		var c Clash
		c.compare(nil, tt.kept, drops.Kept{Body: tt.dropped})
		if c.Note == nil || *c.Note != note || c.Differ != 0 {
			t.Errorf("%s: %v, %d differ", name, c.Note, c.Differ)
		}
	}
	var c Clash
	c.compare(nil, feed.Delivery{Body: many[:len(many)/3]}, drops.Kept{Body: small}) // no JSON, but not too much of it
	if c.Note != nil && *c.Note == note {
		t.Error("a body of fewer values is not compared")
	}
}
