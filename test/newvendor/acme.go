// Package newvendor is a vendor that does not exist, and a test that it needs nothing but its folder and its place in the
// list of vendors.
package newvendor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/internal/samples"
	"webhook-gateway/internal/scrub"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

const (
	signatureHeader = "X-Acme-Signature"
	timestampHeader = "X-Acme-Timestamp"
)

// acme sends JSON arrays of notes, signed with the time.
type acme struct{}

func (acme) Name() string { return "acme" }

func (acme) Headers() []string { return []string{"x-acme-attempt"} }

func (acme) Prove(h http.Header, now time.Time) (providers.Proof, error) {
	seconds, err := strconv.ParseInt(h.Get(timestampHeader), 10, 64)
	if _, bad := hex.DecodeString(h.Get(signatureHeader)); err != nil || bad != nil || h.Get(signatureHeader) == "" {
		return nil, providers.ErrUnsigned
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return nil, providers.ErrStale
	}
	return proof{h.Get(signatureHeader), seconds}, nil
}

type proof struct {
	signature string
	seconds   int64
}

func (p proof) Verify(secret string, body []byte) bool {
	return strings.TrimSpace(secret) != "" && hmac.Equal([]byte(p.signature), []byte(sign(secret, p.seconds, body)))
}

func sign(secret string, seconds int64, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", seconds, body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (acme) Sign(secret string, body []byte, at time.Time) http.Header {
	return http.Header{signatureHeader: {sign(secret, at.Unix(), body)}, timestampHeader: {strconv.FormatInt(at.Unix(), 10)}}
}

func (acme) TestSecret() string { return "acme-test-button" }

func (acme) Parse(_ string, body []byte) ([]providers.Delivery, error) {
	var doc canonical.Doc
	if err := doc.Parse(body); err != nil {
		return nil, fmt.Errorf("%w: %w", providers.ErrMalformed, err)
	}
	var list []providers.Delivery
	for v := range doc.Root().Elements() {
		d := providers.Delivery{VendorID: v.Only("id").Text(), Type: v.Only("kind").Text(), Hash: v.Fingerprint(), Body: v.Raw()}
		if shop := v.Only("shop").Text(); shop != "" {
			d.Tenant = jobs.Identity{Name: "shop", Value: shop}
			d.Named = []jobs.Identity{d.Tenant}
		}
		list = append(list, d)
	}
	if len(list) == 0 || len(list) > providers.MaxDeliveries {
		return nil, providers.ErrMalformed
	}
	return list, nil
}

func (acme) Batch(part []byte) []byte { return fmt.Appendf(nil, "[%s]", part) }

func (acme) Words() scrub.Words { return scrub.Words{Kinds: []string{"kind"}} }

func (acme) Retention() time.Duration { return 3 * 24 * time.Hour }

func (acme) Samples() samples.Set {
	notes := func(n int, shop string) samples.Sample {
		var list []samples.Object
		for range n {
			list = append(list, samples.Object{"id": samples.Random(12), "kind": "note.added", "shop": shop, "text": "Greta was here"})
		}
		body, _ := json.Marshal(list) // of texts: it cannot fail
		return samples.Sample{ContentType: samples.JSON, Attempt: samples.Same(body)}
	}
	return samples.Set{
		Application: jobs.Identity{Name: "app", Value: "app-1"},
		Tenants:     []jobs.Identity{{Name: "shop", Value: "shop-1"}},
		Kinds: []samples.Kind{
			{Name: "notes", About: "two in one request", Make: func(n samples.Names) samples.Sample { return notes(2, n.Or("shop", "none")) }},
			{Name: "stranger", About: "of a shop without a job", Make: func(samples.Names) samples.Sample { return notes(1, "shop-2") }},
		},
	}
}
