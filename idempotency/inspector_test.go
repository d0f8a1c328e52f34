package idempotency_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

func keysOf(entries []idempotency.Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Scope+" "+e.Key)
	}
	return keys
}

func TestShow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inspect := idempotency.NewInspector(b.pool)
	r := b.ref("tool.email.send", "job_17:3:send")
	text := r.Key.String()
	if e, err := inspect.Show(t.Context(), b.org, "tool.email.send", text); e != nil || err != nil {
		t.Errorf("%+v, %v, want nothing", e, err)
	}
	c := b.own(r, content("1"))
	show := func(safe bool, status, word string) *idempotency.Entry {
		t.Helper()
		before := b.row(r)
		e, err := inspect.Show(t.Context(), b.org, r.Scope.String(), text)
		if err != nil || e == nil {
			t.Fatal(e, err)
		}
		if got, why := e.Redrive(); got != safe || !strings.Contains(why, word) || e.Status != status {
			t.Errorf("%s, safe %v: %s", e.Status, got, why)
		}
		if b.row(r) != before {
			t.Error("looking changed the row")
		}
		return e
	}
	e := show(true, "processing", "in flight")
	if e.ID != c.ID || e.Hash != content("1").Current().String() || e.LeaseLeft <= 0 || e.LeaseLeft > lease || e.RetainLeft <= lease || e.Response != nil {
		t.Errorf("%+v", e)
	}
	b.pass(lease)
	show(false, "processing", "may have made the effect")
	b.complete(c, idempotency.Answer{Resource: idempotency.ResourceRef{Type: "message", ID: "m-1"}, Response: []byte(`{"ok":true}`)})
	e = show(true, "completed", "replayed")
	if e.Resource.ID != "m-1" || string(e.Response) != `{"ok":true}` {
		t.Errorf("%+v", e)
	}
	b.pass(31 * 24 * time.Hour)
	show(false, "completed", "made again")
	if e, err := inspect.Show(t.Context(), uuid.New(), r.Scope.String(), text); e != nil || err != nil {
		t.Errorf("another organization is shown %+v, %v", e, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inspect := idempotency.NewInspector(b.pool)
	for _, key := range []string{"a_1", "a%2", "ab", "b"} {
		scope := "tool.x"
		b.own(idempotency.Ref{Organization: b.org, Scope: mustScope(t, scope), Key: idempotency.MustKey(idempotency.DeliveryKey(job(), key))}, content("1"))
	}
	b.own(b.ref("tool.a", "k"), content("1"))
	b.own(idempotency.Ref{Organization: uuid.New(), Scope: mustScope(t, "tool.x"), Key: mustKey(t, "k")}, content("1"))
	j := job().String() + "/"
	for _, tc := range []struct {
		page idempotency.Page
		want []string
	}{
		{idempotency.Page{Limit: 10}, []string{"tool.a k", "tool.x " + j + "a%252", "tool.x " + j + "a_1", "tool.x " + j + "ab", "tool.x " + j + "b"}},
		{idempotency.Page{Limit: 2}, []string{"tool.a k", "tool.x " + j + "a%252"}},
		{idempotency.Page{Limit: 2, AfterScope: "tool.x", AfterKey: j + "a%252"}, []string{"tool.x " + j + "a_1", "tool.x " + j + "ab"}},
		{idempotency.Page{Limit: 10, Scope: "tool.a"}, []string{"tool.a k"}},
		{idempotency.Page{Limit: 10, Prefix: j + "a_"}, []string{"tool.x " + j + "a_1"}},
	} {
		tc.page.Organization = b.org
		got, err := inspect.List(t.Context(), tc.page)
		if diff := cmp.Diff(tc.want, keysOf(got)); diff != "" || err != nil {
			t.Errorf("%+v (-want +got):\n%s %v", tc.page, diff, err)
		}
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inspect := idempotency.NewInspector(b.pool)
	b.own(b.ref("webhook.nylas", "forgotten"), content("1"))
	b.pass(25 * time.Hour)
	b.own(b.ref("tool.x", "long ago"), content("1"))
	b.complete(b.own(b.ref("tool.x", "done"), content("1")), response(`1`))
	b.pass(time.Hour)
	b.own(b.ref("tool.x", "just now"), content("1"))
	b.pass(lease + time.Second)
	b.own(b.ref("tool.x", "live"), content("1"))
	for since, want := range map[time.Duration][]string{
		0:             {"tool.x long ago", "tool.x just now"},
		time.Minute:   {"tool.x long ago"},
		time.Hour * 2: nil,
	} {
		got, err := inspect.Stuck(t.Context(), since, 10)
		if diff := cmp.Diff(want, keysOf(got)); diff != "" || err != nil {
			t.Errorf("%s (-want +got):\n%s %v", since, diff, err)
		}
	}
	if got, err := inspect.Stuck(t.Context(), 0, 1); err != nil || len(got) != 1 || got[0].Key != "long ago" {
		t.Errorf("%v, %v, want the oldest", keysOf(got), err)
	}
	for _, limit := range []int{0, -1, idempotency.MaxEntries + 1} {
		if _, err := inspect.Stuck(t.Context(), 0, limit); err == nil {
			t.Errorf("a limit of %d was taken", limit)
		}
		if _, err := inspect.List(t.Context(), idempotency.Page{Organization: b.org, Limit: limit}); err == nil {
			t.Errorf("a limit of %d was taken", limit)
		}
	}
}
