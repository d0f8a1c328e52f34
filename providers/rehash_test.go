package providers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"testing"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/providers"
)

func TestRehash(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	body := []byte(`[{"id":"1"},{"id":"2"}]`)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(body) // to memory
	_ = z.Close()
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		position       int
		method         string
		hash           string
		known          bool
	}{
		{"raw", "", body, 1, "r1", canonical.Raw(body), true},
		{"raw, compressed", "gzip", packed.Bytes(), 1, "r1", canonical.Raw(body), true},
		{"of a delivery that is not there", "", body, 2, "r1", "", true},
		{"today's method, which made another hash", "", body, 0, "c1", "", true},
		{"a later method", "", body, 0, "c2", "", false},
		{"what cannot be unpacked", "gzip", packed.Bytes()[:20], 0, "r1", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := &providers.Request{Provider: "acme", ContentEncoding: tt.encoding, Body: tt.body}
			hash, known := d.gate.Rehash(context.Background(), req, tt.position, tt.method)
			if hash != tt.hash || known != tt.known {
				t.Errorf("got %q, %v; want %q, %v", hash, known, tt.hash, tt.known)
			}
		})
	}
}
