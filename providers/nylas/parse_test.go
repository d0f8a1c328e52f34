package nylas

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

const (
	grant   = "4c22c3c5-d163-48b6-ad95-45fedc879683"
	another = "b7dd6e6e-af6a-463b-92fa-be35c2683f5c"
	app     = "a7966b5a-9bc2-44b7-9895-4e2b281ce6be"
)

// created is a notification of API v3 from which the cases below change one thing.
const created = `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"5SJs4Ue3CPU8KcBz0Ta1YW","time":1723821985,"webhook_delivery_attempt":1,"data":{"application_id":"` + app + `","object":{"grant_id":"` + grant + `","id":"1915c5d0b7f4a1e2","object":"message","subject":"<b>"}}}`

func changed(t testing.TB, from, to string) string {
	t.Helper()
	if strings.Count(created, from) != 1 {
		t.Fatalf("%q is not there once", from)
	}
	return strings.Replace(created, from, to, 1)
}

func ids(pairs ...string) (named []jobs.Identity) {
	for i := 0; i < len(pairs); i += 2 {
		named = append(named, jobs.Identity{Name: pairs[i], Value: pairs[i+1]})
	}
	return named
}

// read parses a body that must be good, and checks what holds for every delivery.
func read(t testing.TB, body string) []providers.Delivery {
	t.Helper()
	deliveries, err := New().Parse("", []byte(body))
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return deliveries
}

func TestNotification(t *testing.T) {
	t.Parallel()
	const object = `"object":{"grant_id":"` + grant + `","id":"1915c5d0b7f4a1e2","object":"message","subject":"<b>"}`
	both := ids("grant_id", grant, "application_id", app)
	whole := providers.Delivery{VendorID: "5SJs4Ue3CPU8KcBz0Ta1YW", Type: "message.created", Tenant: both[0], Named: both, OrderingKey: grant}
	with := func(change func(*providers.Delivery)) providers.Delivery {
		d := whole
		change(&d)
		return d
	}
	noGrant := with(func(d *providers.Delivery) {
		d.Tenant, d.Named, d.OrderingKey = jobs.Identity{}, both[1:], ""
	})
	typed := func(kind string) providers.Delivery {
		return with(func(d *providers.Delivery) { d.Type = kind })
	}
	for _, c := range []struct {
		name, from, to string
		want           providers.Delivery
	}{
		{"as it is", `"id":"5S`, `"id":"5S`, whole},
		{"an unknown type", "message.created", "message.created.cleaned.truncated", typed("message.created.cleaned.truncated")},
		{"a type in escapes", "message.created", `message\u002ecreated`, whole},
		{"no attempt counter", `"webhook_delivery_attempt":1,`, "", whole},
		{"no id", `"id":"5SJs4Ue3CPU8KcBz0Ta1YW",`, "", with(func(d *providers.Delivery) { d.VendorID = "" })},
		{"null for an id", `"5SJs4Ue3CPU8KcBz0Ta1YW"`, "null", with(func(d *providers.Delivery) { d.VendorID = "" })},
		{"an empty id", `"5SJs4Ue3CPU8KcBz0Ta1YW"`, `""`, with(func(d *providers.Delivery) { d.VendorID = "" })},
		{"a number for an id", `"5SJs4Ue3CPU8KcBz0Ta1YW"`, "5", with(func(d *providers.Delivery) { d.VendorID = "" })},
		{"two ids", `"id":"5S`, `"id":"x","id":"5S`, with(func(d *providers.Delivery) { d.VendorID = "" })},
		{"an id of another case", `"id":"5S`, `"Id":"x","id":"5S`, whole},
		{"no type", `"type":"message.created",`, "", typed("")},
		{"a number for a type", `"message.created"`, "7", typed("")},
		{"two types", `"type":`, `"type":"x","type":`, typed("")},
		{"a null object", object, `"object":null`, noGrant},
		{"no object", "," + object, ``, noGrant},
		{"a null grant", `"grant_id":"` + grant + `"`, `"grant_id":null`, noGrant},
		{"an empty grant", `"grant_id":"` + grant + `"`, `"grant_id":""`, noGrant},
		{"a grant of another case", `"grant_id"`, `"Grant_id"`, noGrant},
		{"a grant somewhere else", `"id":"1915c5d0b7f4a1e2"`, `"id":"1","x":{"grant_id":"` + another + `"}`, whole},
		{"a grant at the top", `"id":"5S`, `"grant_id":"` + another + `","id":"5S`, whole},
		{"a grant beside a null object", object, `"object":null,"grant_id":"` + grant + `"`, whole},
		{"a grant beside an object without one", `"grant_id":"` + grant + `",`, ``, noGrant},
		{"one grant in both places", object, object + `,"grant_id":"` + grant + `"`, whole},
		{"another grant beside the object", object, object + `,"grant_id":"` + another + `"`, with(func(d *providers.Delivery) {
			d.Named = ids("grant_id", grant, "grant_id", another, "application_id", app)
		})},
		{"another grant before the object", `"application_id"`, `"grant_id":"` + another + `","application_id"`, with(func(d *providers.Delivery) {
			d.Named = ids("grant_id", grant, "grant_id", another, "application_id", app)
		})},
		{"no application", `"application_id":"` + app + `",`, "", with(func(d *providers.Delivery) { d.Named = both[:1] })},
		{"null data", `"data":{"application_id":"` + app + `",` + object + `}`, `"data":null`, with(func(d *providers.Delivery) {
			d.Tenant, d.Named, d.OrderingKey = jobs.Identity{}, nil, ""
		})},
		{"deltas inside, as the legacy types have", `"subject":"<b>"`, `"deltas":[{"object_data":{"account_id":"a1"}}]`, whole},
		{"deltas beside the version", `"id":"5S`, `"deltas":[{"type":"x","object_data":{"account_id":"a1"}}],"id":"5S`, whole},
		{"no version", `"specversion":"1.0",`, "", whole},
		{"deltas twice beside the version", `"id":"5S`, `"deltas":1,"deltas":2,"id":"5S`, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := changed(t, c.from, c.to)
			c.want.Hash = canonical.Hash([]byte(body), "webhook_delivery_attempt")
			if diff := cmp.Diff([]providers.Delivery{c.want}, read(t, body)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownShapesAreKept(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`[]`, `[{"id":"1","data":{"grant_id":"g"}}]`, `"text"`, `7`, `null`, `true`, `{}`, ` {} `, `{"deltas":[]}`, `{"deltas":null}`,
		`{"page":{},"booking":{}}`, "{\"x\":\"\xff\\u0000\\ud800\"}", `{"x":1,"x":2}`,
	} {
		got := read(t, body)
		if diff := cmp.Diff([]providers.Delivery{{Hash: canonical.Hash([]byte(body))}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`{},`, providers.MaxDeliveries) + `{}`
	for _, body := range []string{
		``, ` `, `{`, created + `x`, created + created, created[:len(created)-1], "\ufeff" + created, `challenge=x`, "\x1f\x8b\x08",
		strings.Repeat("[", canonical.MaxDepth+1) + strings.Repeat("]", canonical.MaxDepth+1),
		changed(t, `"data":{`, `"data":{},"data":{`),
		changed(t, `"data":{`, `"data":"x","rest":{`),
		changed(t, `"data":{`, `"data":[],"rest":{`),
		changed(t, `"object":{`, `"object":{},"object":{`),
		changed(t, `"object":{`, `"object":[],"rest":{`),
		changed(t, `"object":{`, `"object":"x","rest":{`),
		changed(t, `"grant_id":`, `"grant_id":"x","grant_id":`),
		changed(t, `"grant_id":`, `"grant\u005fid":"`+grant+`","grant_id":`),
		changed(t, `"grant_id":"`+grant+`"`, `"grant_id":7`),
		changed(t, `"grant_id":"`+grant+`"`, `"grant_id":{}`),
		changed(t, `"application_id":`, `"application_id":"x","application_id":`),
		changed(t, `"application_id":"`+app+`"`, `"application_id":[]`),
		changed(t, `"application_id":`, `"grant_id":7,"application_id":`),
		changed(t, `"application_id":`, `"grant_id":"x","grant_id":"x","application_id":`),
		`{"deltas":{}}`, `{"deltas":"x"}`, `{"deltas":[],"deltas":[]}`, `{"specversion":null,"deltas":7}`,
		`{"deltas":[{},{"object_data":[]}]}`, `{"deltas":[{"object_data":{},"object_data":{}}]}`,
		`{"deltas":[{"object_data":{"account_id":7}}]}`, `{"deltas":[{"object_data":{"account_id":"a","account_id":"a"}}]}`,
		`{"deltas":[` + many + `]}`,
		`{"deltas":[` + strings.Repeat(`0,`, 20_000) + `0]}`,
	} {
		deliveries, err := New().Parse("application/json", []byte(body))
		if deliveries != nil || !errors.Is(err, providers.ErrMalformed) {
			t.Errorf("%.100q: %d deliveries, %v; want ErrMalformed", body, len(deliveries), err)
			continue
		}
		if strings.Contains(err.Error(), grant) || strings.Contains(err.Error(), "challenge") {
			t.Errorf("the error tells content: %v", err)
		}
	}
}

func TestAttemptsAreEqual(t *testing.T) {
	t.Parallel()
	first := read(t, created)[0]
	for _, body := range []string{
		changed(t, `attempt":1`, `attempt":2`), changed(t, `attempt":1`, `attempt":3`), changed(t, `"webhook_delivery_attempt":1,`, ""),
		changed(t, `"subject":"<b>"`, `"subject" : "\u003cb\u003e"`),
	} {
		if diff := cmp.Diff(first, read(t, body)[0]); diff != "" {
			t.Errorf("%s (-first +this):\n%s", body, diff)
		}
	}
	for _, body := range []string{
		changed(t, `"subject":"<b>"`, `"subject":"<i>"`), changed(t, `"time":1723821985`, `"time":1723821986`),
		changed(t, `"subject":"<b>"`, `"webhook_delivery_attempt":1`), changed(t, `"source":"/google/emails/realtime",`, ""),
	} {
		if read(t, body)[0].Hash == first.Hash {
			t.Errorf("%s: taken for the same content", body)
		}
	}
}

const delta1 = `{"date":1602623196,"object":"message","type":"message.created","object_data":{"namespace_id":"ns","account_id":"acc1","object":"message","attributes":null,"id":"obj1","metadata":null}}`

func TestBatchOfV2(t *testing.T) {
	t.Parallel()
	body := ` {"deltas" : [ ` + delta1 + ` ,{"type":"account.stopped"}, null, 7,"x",[` + delta1 + `],{"type":7,"x":1,"x":2,"object_data":null}] }`
	// Netstrings of the type, the object, the date and the account, hashed.
	const id = "delta:95d37b4254890f6d724c334323b4468db813d0e1011d8143ed812795042ff432"
	want := []providers.Delivery{
		{VendorID: id, Type: "message.created", Tenant: ids("account_id", "acc1")[0], Named: ids("account_id", "acc1"), OrderingKey: "acc1", Body: []byte(delta1)},
		{Type: "account.stopped", Body: []byte(`{"type":"account.stopped"}`)},
		{Body: []byte(`null`)}, {Body: []byte(`7`)}, {Body: []byte(`"x"`)}, {Body: []byte(`[` + delta1 + `]`)},
		{Body: []byte(`{"type":7,"x":1,"x":2,"object_data":null}`)},
	}
	for i := range want {
		want[i].Hash = canonical.Hash(want[i].Body)
	}
	raw := []byte(body)
	got, err := New().Parse("", raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, d := range got {
		at := bytes.Index(raw, d.Body)
		if &raw[at] != &d.Body[0] && i == 0 {
			t.Error("an element's bytes are a copy")
		}
		if diff := cmp.Diff([]providers.Delivery{d}, read(t, string(New().Batch(d.Body)))); diff != "" {
			t.Errorf("alone in a batch (-want +got):\n%s", diff)
		}
	}
}

func TestDeltaIDTellsDeltasApart(t *testing.T) {
	t.Parallel()
	one := func(kind, object, date, account string) string {
		return read(t, fmt.Sprintf(`{"deltas":[{"type":%s,"date":%s,"object_data":{"id":%s,"account_id":%s}}]}`, kind, date, object, account))[0].VendorID
	}
	first := one(`"t"`, `"o"`, `1`, `"a"`)
	seen := map[string]string{}
	for _, parts := range [][4]string{
		{`"t"`, `"o"`, `1`, `"a"`}, {`"t2"`, `"o"`, `1`, `"a"`}, {`"t"`, `"o2"`, `1`, `"a"`}, {`"t"`, `"o"`, `2`, `"a"`}, {`"t"`, `"o"`, `1`, `"a2"`},
		{`"to"`, `"x"`, `1`, `"a"`}, {`"t"`, `"ox"`, `1`, `"a"`}, {`"t1:o"`, `"x"`, `1`, `"a"`}, {`"t"`, `"1:o"`, `1`, `"a"`}, {`"a"`, `"o"`, `1`, `"t"`},
	} {
		id := one(parts[0], parts[1], parts[2], parts[3])
		if other, ok := seen[id]; ok || !strings.HasPrefix(id, "delta:") || len(id) != 70 {
			t.Errorf("%v has the id %s, as %s has", parts, id, other)
		}
		seen[id] = fmt.Sprint(parts)
	}
	if again := read(t, `{"deltas":[{"object_data":{"account_id":"a","more":1,"id":"o"},"date":1,"type":"t"}]}`)[0].VendorID; again != first {
		t.Error("the id depends on more than its parts")
	}
	for _, parts := range [][4]string{
		{`null`, `"o"`, `1`, `"a"`}, {`"t"`, `null`, `1`, `"a"`}, {`"t"`, `"o"`, `null`, `"a"`}, {`"t"`, `"o"`, `1`, `null`},
		{`""`, `"o"`, `1`, `"a"`}, {`"t"`, `""`, `1`, `"a"`}, {`"t"`, `"o"`, `"1"`, `"a"`}, {`"t"`, `"o"`, `1`, `""`}, {`"t"`, `7`, `1`, `"a"`},
	} {
		if id := one(parts[0], parts[1], parts[2], parts[3]); id != "" {
			t.Errorf("%v has the id %s", parts, id)
		}
	}
}

func TestAsManyDeltasAsAllowed(t *testing.T) {
	t.Parallel()
	body := `{"deltas":[` + strings.Repeat(delta1+",", providers.MaxDeliveries-1) + delta1 + `]}`
	if got := len(read(t, body)); got != providers.MaxDeliveries {
		t.Errorf("%d deliveries", got)
	}
}

func TestTooManyDeltas(t *testing.T) {
	allocs := func(deltas int) float64 {
		body := []byte(`{"deltas":[` + strings.Repeat(`{},`, deltas) + `{}]}`)
		return testing.AllocsPerRun(3, func() {
			if _, err := New().Parse("", body); err == nil {
				t.Fatal("read them all")
			}
		})
	}
	if few, many := allocs(providers.MaxDeliveries), allocs(20*providers.MaxDeliveries); many > 2*few {
		t.Errorf("%v allocations where one delta is too many, %v where 19,001 are", few, many)
	}
}

func FuzzParse(f *testing.F) {
	for _, body := range []string{created, `{"deltas":[` + delta1 + `,7]}`, `[]`, `{"data":{"object":null,"grant_id":"g"}}`, `{"deltas":[]}`, ``} {
		f.Add([]byte(body))
	}
	p := New()
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := p.Parse("", body)
		again, _ := New().Parse("", bytes.Clone(body))
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("a provider that was used before differs from a new one:\n%s", diff)
		}
		if err != nil {
			if !errors.Is(err, providers.ErrMalformed) || got != nil {
				t.Fatalf("%d deliveries, %v", len(got), err)
			}
			return
		}
		if len(got) == 0 || len(got) > providers.MaxDeliveries {
			t.Fatalf("%d deliveries", len(got))
		}
		for _, d := range got {
			part := d.Body
			if part == nil {
				part = body
			}
			if d.Hash != canonical.Raw(part) && d.Hash != canonical.Hash(part, attempt) && d.Hash != canonical.Hash(part) {
				t.Errorf("fingerprint %s", d.Hash)
			}
			if d.Tenant != (jobs.Identity{}) && (len(d.Named) == 0 || d.Named[0] != d.Tenant || d.Tenant.Value == "") {
				t.Errorf("tenant %v of %v", d.Tenant, d.Named)
			}
			if len(got) > 1 && !bytes.Contains(body, d.Body) {
				t.Error("an element's bytes are not the body's")
			}
		}
	})
}
