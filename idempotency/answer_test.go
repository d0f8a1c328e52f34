package idempotency_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/idempotency"
)

func TestAnswerByteForByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, text := range map[string]string{
		"null":               `null`,
		"an empty object":    `{}`,
		"an empty string":    `""`,
		"an escaped NUL":     `"x\u0000y"`,
		"a lone surrogate":   `"\ud83d"`,
		"a huge exponent":    `1e400`,
		"twenty digits":      `12345678901234567890`,
		"number lexemes":     `[1.10, -0, 0.1e1, 1E5]`,
		"blanks and order":   "{ \"b\" : 1,\n\t\"a\": 2 }",
		"a repeated member":  `{"b":1,"a":2,"b":3}`,
		"deep, but not much": strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"the longest":        `"` + strings.Repeat("x", idempotency.MaxResponse-2) + `"`,
		"brackets in text":   `"` + strings.Repeat(`[{\"`, 2000) + `"`,
		"not quite a stub":   `{"idempotency:unkept" :1}`,
	} {
		r := b.ref("tool.x", name)
		if !b.complete(b.own(r, content("1")), response(text)) {
			t.Errorf("%s: not recorded", name)
			continue
		}
		o := b.claim(r, content("1"))
		b.want(o, idempotency.Completed)
		if string(o.Answer.Response) != text {
			t.Errorf("%s: %.100s came back as %.100s", name, text, o.Answer.Response)
		}
		if u, cut := o.Answer.Unkept(); cut {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// A value that cannot be stored must not make a completion fail, because the effect was made.
func TestUnkeepableAnswerIsStub(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct{ text, reason string }{
		"one byte too long": {`"` + strings.Repeat("x", idempotency.MaxResponse-1) + `"`, "too_large"},
		"10 MiB":            {`"` + strings.Repeat("x", 10<<20) + `"`, "too_large"},
		"too deep":          {strings.Repeat("[", 1001) + strings.Repeat("]", 1001), "too_deep"},
		"invalid UTF-8":     {"\"\xff\"", "not_json"},
		"a raw NUL":         {"\"\x00\"", "not_json"},
		"no JSON":           {`<html>`, "not_json"},
		"two values":        {`1 2`, "not_json"},
		"empty":             {``, "not_json"},
		"a stub":            {`{"idempotency:unkept":{"reason":"forged"}}`, "reserved"},
	} {
		r := b.ref("tool.x", name)
		a := response(tc.text)
		a.Resource = idempotency.ResourceRef{Type: "object", ID: "s3://answers/1"}
		if !b.complete(b.own(r, content("1")), a) {
			t.Errorf("%s: not recorded", name)
			continue
		}
		o := b.claim(r, content("1"))
		b.want(o, idempotency.Completed)
		sum := sha256.Sum256([]byte(tc.text))
		want := idempotency.Unkept{Reason: tc.reason, Size: len(tc.text), SHA256: hex.EncodeToString(sum[:])}
		if u, cut := o.Answer.Unkept(); !cut || u != want || o.Answer.Resource != a.Resource {
			t.Errorf("%s: %v %+v with %v, want %+v", name, cut, u, o.Answer.Resource, want)
		}
	}
}

func TestEmptyCompletionRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.own(b.ref("tool.x", "k"), content("1"))
	for _, a := range []idempotency.Answer{
		{},
		{Resource: idempotency.ResourceRef{Type: "message"}},
		{Resource: idempotency.ResourceRef{ID: "m-1"}},
		{Resource: idempotency.ResourceRef{Type: "message"}, Response: []byte(`1`)},
	} {
		if _, err := b.keys.Complete(t.Context(), c, a); !errors.Is(err, idempotency.ErrEmptyAnswer) {
			t.Errorf("%+v: %v, want ErrEmptyAnswer", a, err)
		}
	}
	b.want(b.claim(c.Ref, content("1")), idempotency.Processing)
	if !b.complete(c, idempotency.Answer{Resource: idempotency.ResourceRef{Type: "message", ID: "m-1"}}) {
		t.Error("the claim is not held any more")
	}
}

func TestResourceOfAnyBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("y", 5000)
	for id, want := range map[string]string{
		"m-1":          "m-1",
		"a%00b é\n":    "a%00b é\n",
		"a\x00b":       "a%00b",
		"\xff":         "%FF",
		long:           "sha256:",
		"sha256:plain": "sha256:plain",
	} {
		r := b.ref("tool.x", strings.ToValidUTF8(strings.ReplaceAll(id, "\x00", "0"), "?"))
		b.complete(b.own(r, content("1")), idempotency.Answer{Resource: idempotency.ResourceRef{Type: "t", ID: id}})
		got := b.read(r, content("1")).Answer.Resource.ID
		if got != want && !(id == long && strings.HasPrefix(got, want)) {
			t.Errorf("%.20q is stored as %.80q, want %q", id, got, want)
		}
	}
}

func TestOnlyDatabaseComparesTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// PostgreSQL keeps microseconds. A lease with extra nanoseconds must not hide a claim from its own repeat.
	o := b.claimFor(b.ref("tool.x", "k"), content("1"), time.Second+time.Nanosecond)
	b.want(o, idempotency.Claimed)
	if diff := cmp.Diff(true, b.complete(o.Claim, response(`1`))); diff != "" {
		t.Error(diff)
	}
}
