package providers_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func TestGzip(t *testing.T) {
	t.Parallel()
	pack := func(s string) string { return zipped(t, s) }
	const plain = `{"id":"1"}`
	good := pack(plain)
	for _, tt := range []struct {
		name, encoding, body string
		reason               drops.Reason
	}{
		{"gzip", "gzip", good, ""},
		{"identity", "identity", `{"id":"1"}`, ""},
		{"a bomb", "gzip", pack(strings.Repeat(" ", 1<<20+1)), drops.Malformed},
		{"exactly the cap", "gzip", pack(strings.Repeat(" ", 1<<20-2) + "{}"), ""},
		{"cut short", "gzip", good[:len(good)-5], drops.Malformed},
		{"nothing", "gzip", "", drops.Malformed},
		{"trailing bytes", "gzip", good + "x", drops.Malformed},
		{"unknown", "br", plain, drops.Malformed},
		{"one that is unknown", "gzip, br", good, drops.Malformed},
		{"twice", "gzip, gzip", pack(good), ""},
		{"twice, a bomb inside", "gzip, gzip", pack(pack(strings.Repeat(" ", 1<<20+1))), drops.Malformed},
		{"three times", "gzip, gzip, gzip", pack(pack(good)), drops.Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDoorOf(t, providers.Limits{Body: 64 << 10, BodyBudget: 1 << 20, Read: time.Minute, Settle: time.Minute})
			job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
			got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", tt.body, func(r *http.Request) {
				r.Header.Set("Content-Encoding", tt.encoding)
			})
			if got.Code != 200 {
				t.Fatalf("status %d", got.Code)
			}
			w := d.settler.work[0]
			if w.Items[0].Reason != tt.reason {
				t.Errorf("reason %q (%s), want %q", w.Items[0].Reason, w.Items[0].Detail, tt.reason)
			}
			if string(w.Request.Body) != tt.body {
				t.Error("the request's value does not hold the bytes of the wire")
			}
		})
	}
}

// What a header says beside gzip loses no delivery, and the row says what its bytes are.
func TestContentEncoding(t *testing.T) {
	t.Parallel()
	const plain = `{"id":"1"}`
	once := zipped(t, plain)
	twice := zipped(t, once)
	for _, tt := range []struct {
		header []string
		body   string
		stored string
	}{
		{nil, plain, ""}, {[]string{""}, plain, ""}, {[]string{" , "}, plain, ""},
		{[]string{"UTF-8"}, plain, ""}, {[]string{"utf8"}, plain, ""}, {[]string{"iso-8859-1"}, plain, ""}, {[]string{"none"}, plain, ""},
		{[]string{"identity"}, plain, ""}, {[]string{"Identity, identity"}, plain, ""},
		{[]string{"gzip"}, once, "gzip"}, {[]string{" GZip "}, once, "gzip"}, {[]string{"x-gzip"}, once, "gzip"},
		{[]string{"gzip, identity"}, once, "gzip"}, {[]string{"identity,gzip"}, once, "gzip"}, {[]string{"gzip,"}, once, "gzip"},
		{[]string{"UTF-8, gzip"}, once, "gzip"}, {[]string{"", "gzip"}, once, "gzip"},
		{[]string{"gzip, gzip"}, twice, "gzip, gzip"}, {[]string{"x-gzip", "gzip"}, twice, "gzip, gzip"},
		{[]string{"gzip"}, plain, ""}, {[]string{"gzip, gzip"}, once, "gzip"}, // it says more than was done
	} {
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
		got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", tt.body, func(r *http.Request) { r.Header["Content-Encoding"] = tt.header })
		if got.Code != 200 || len(d.settler.work) != 1 {
			t.Fatalf("%q: status %d", tt.header, got.Code)
		}
		w := d.settler.work[0]
		if item := w.Items[0]; item.Reason != "" || item.VendorID != "1" {
			t.Errorf("%q: dropped as %s: %s", tt.header, item.Reason, item.Detail)
		}
		if string(w.Request.Body) != tt.body || w.Request.ContentEncoding != tt.stored {
			t.Errorf("%q: stored as %q, want %q", tt.header, w.Request.ContentEncoding, tt.stored)
		}
	}
}

func TestCompressed(t *testing.T) {
	t.Parallel()
	for encoding, want := range map[string]bool{
		"": false, "UTF-8": false, "identity": false, " , none": false, "gzip": true, "utf-8, x-gzip": true, "br": true, "gzip, gzip, gzip": true,
	} {
		if got := providers.Compressed(encoding); got != want {
			t.Errorf("%q: %v, want %v", encoding, got, want)
		}
	}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
