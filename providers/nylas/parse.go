package nylas

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/internal/scrub"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// attempt is the member of a notification in which Nylas counts its retries, inside the signed body.
const attempt = "webhook_delivery_attempt"

// Parse reads a v3 notification, which is one delivery, or a v2 batch, which is one for each delta. It ignores the
// content type: Nylas does not document one.
func (p *Provider) Parse(_ string, body []byte) ([]providers.Delivery, error) {
	doc, err := p.docs.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", providers.ErrMalformed, err)
	}
	defer p.docs.Put(doc)

	root := doc.Root()
	var s canonical.Strict
	var deliveries []providers.Delivery
	// A v3 envelope is a CloudEvent; its legacy types have deltas too, but further inside.
	if version, _ := root.Member("specversion"); version.Kind() <= canonical.Null {
		deliveries = batch(&s, root)
	}
	if len(deliveries) > providers.MaxDeliveries {
		return nil, fmt.Errorf("%w: more than %d deltas", providers.ErrMalformed, providers.MaxDeliveries)
	}
	if len(deliveries) == 0 {
		deliveries = []providers.Delivery{notification(&s, root)}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", providers.ErrMalformed, err)
	}
	return deliveries, nil
}

// notification reads a v3 envelope, or a body of any other form. Many types have no grant: bookings, agent accounts,
// transactional mail, standalone bots.
func notification(s *canonical.Strict, root canonical.Value) providers.Delivery {
	data := s.Object(root, "data")
	d := providers.Delivery{
		VendorID: root.Only("id").Text(),
		Type:     root.Only("type").Text(),
		Hash:     root.Fingerprint(attempt),
	}
	// Events about sending have the grant beside an object that may be null; all others have it inside.
	inner, outer := s.Text(s.Object(data, "object"), "grant_id"), s.Text(data, "grant_id")
	for _, grant := range []string{inner, outer} {
		if grant == "" || grant == d.Tenant.Value {
			continue
		}
		id := jobs.Identity{Name: "grant_id", Value: grant}
		if d.Tenant.Value == "" {
			d.Tenant, d.OrderingKey = id, grant
		}
		d.Named = append(d.Named, id)
	}
	if application := s.Text(data, "application_id"); application != "" {
		d.Named = append(d.Named, jobs.Identity{Name: "application_id", Value: application})
	}
	return d
}

// batch reads the deltas of a v2 body; nil if it has none. It stops at the first one beyond the limit.
func batch(s *canonical.Strict, root canonical.Value) []providers.Delivery {
	var deliveries []providers.Delivery
	for v := range s.Member(root, "deltas", canonical.Array).Elements() {
		deliveries = append(deliveries, delta(s, v))
		if len(deliveries) > providers.MaxDeliveries {
			break
		}
	}
	return deliveries
}

// Batch returns a v2 batch with one delta.
func (*Provider) Batch(part []byte) []byte { return fmt.Appendf(nil, `{"deltas":[%s]}`, part) }

// delta reads one element of a v2 batch. An element that is not an object is a delivery too.
func delta(s *canonical.Strict, v canonical.Value) providers.Delivery {
	data := s.Object(v, "object_data")
	account := s.Text(data, "account_id")
	d := providers.Delivery{
		Type:        v.Only("type").Text(),
		OrderingKey: account,
		Hash:        v.Fingerprint(),
		Body:        v.Raw(),
	}
	d.VendorID = deltaID(d.Type, data.Only("id").Text(), v.Only("date"), account)
	if account != "" {
		d.Tenant = jobs.Identity{Name: "account_id", Value: account}
		d.Named = []jobs.Identity{d.Tenant}
	}
	return d
}

// deltaID makes an id from everything that tells one delta from another, because v2 has no ids: what happened, to
// which object, when, and in which account. If one of them is missing, there is no id.
func deltaID(kind, object string, date canonical.Value, account string) string {
	if kind == "" || object == "" || date.Kind() != canonical.Number || account == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{kind, object, string(date.Raw()), account} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10)) // with the length before each part, two lists never give the same text
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return "delta:" + hex.EncodeToString(h.Sum(nil))
}

// Words keeps the kind of mailbox behind a grant.
func (*Provider) Words() scrub.Words { return scrub.Words{Kinds: []string{"provider"}} }
