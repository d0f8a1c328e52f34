package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/providers/nylas"
)

func testSpec(shape Shape) *Spec {
	return &Spec{
		Addresses: []string{"127.0.0.1:1"}, Path: "/webhooks/nylas/sources/bench", Secret: "s3cret", Application: "app",
		Tenants: []string{uuid.NewString(), uuid.NewString()}, Shape: shape, Run: "1", Connections: 4, Requests: 5,
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	for shape, want := range map[Shape]struct{ deliveries, least, most int }{
		Usual:  {1, 1190, 1210},
		Mail:   {1, 19_900, 20_100},
		Large:  {1, 999_000, 1_001_000},
		Gzip:   {1, 300, 1000},
		Deltas: {DeltasEach, 20_000, 60_000},
	} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			spec := testSpec(shape)
			p, err := prepare(spec)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			buf := p.buffer()
			for i := range spec.Requests {
				req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p.request(i, buf))))
				if err != nil {
					t.Fatal(err)
				}
				wire, err := io.ReadAll(req.Body)
				if err != nil || int64(len(wire)) != req.ContentLength || len(wire) < want.least || len(wire) > want.most {
					t.Fatalf("a body of %d bytes, announced as %d: %v", len(wire), req.ContentLength, err)
				}
				proof, err := nylas.New().Prove(req.Header, time.Now())
				if err != nil || !proof.Verify(spec.Secret, wire) || req.URL.Path != spec.Path {
					t.Fatalf("not as it should be signed or sent: %v", err)
				}
				deliveries, err := nylas.New().Parse("", plain(t, shape, wire))
				if err != nil || len(deliveries) != want.deliveries {
					t.Fatalf("%d deliveries, %v", len(deliveries), err)
				}
				for _, d := range deliveries {
					if d.VendorID == "" || seen[d.VendorID] || !slices.Contains(spec.Tenants, d.Tenant.Value) {
						t.Fatalf("id %q again or none, or unknown tenant %q", d.VendorID, d.Tenant.Value)
					}
					seen[d.VendorID] = true
				}
			}
		})
	}
}

func plain(t *testing.T, shape Shape, wire []byte) []byte {
	t.Helper()
	if shape != Gzip {
		return wire
	}
	z, err := gzip.NewReader(bytes.NewReader(wire))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAnotherRunHasOtherIDs(t *testing.T) {
	t.Parallel()
	if bytes.Equal(notificationID("1", 0, 0), notificationID("2", 0, 0)) || !bytes.Equal(notificationID("1", 7, 3), notificationID("1", 7, 3)) {
		t.Error("ids are not the run's own, or not the same again")
	}
}
