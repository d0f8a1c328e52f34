package inbox

import (
	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// row is one delivery on its way into the database: to be claimed and kept, or to be kept as a drop.
type row struct {
	entry *entry
	index int
	item  *providers.Item
	hash  idempotency.Hash
	drop  *drops.Kept // set for a drop
	kept  drops.Keep
}

func newRow(e *entry, index int) *row {
	return &row{entry: e, index: index, item: &e.work.Items[index]}
}

func (r *row) provider() string { return r.entry.work.Request.Provider }
func (r *row) mint(m providers.Minted) uuid.UUID {
	return r.entry.work.Request.Mint(m, r.item.Position)
}

func (r *row) end(ending providers.Ending) { r.entry.end(r.index, ending) }

// fail asks the vendor to send the delivery again.
func (b *Inbox) fail(r *row) {
	if r.drop != nil {
		origin := drops.Origin{Verifier: r.drop.VerifierID, Reason: r.drop.Reason}
		b.limiter.Return(origin, r.drop.RequestID, r.kept, r.drop.ReceivedAt)
	}
	r.end(providers.Ending{Failed: true})
}

// vendorID identifies the delivery at the vendor. Where the vendor gives none, the delivery's own id does.
func (r *row) vendorID() string {
	if r.item.VendorID != "" {
		return r.item.VendorID
	}
	return r.mint(providers.DeliveryID).String()
}

// body returns what is stored: the bytes of the wire, or this delivery's part of them.
func (r *row) body() (body []byte, contentEncoding string) {
	if r.item.Body != nil {
		return r.item.Body, ""
	}
	return r.entry.work.Request.Body, r.entry.work.Request.ContentEncoding
}

// key is the delivery's key. It has a job and an id; NewEffects refuses an item without a key.
func (r *row) key() idempotency.Key {
	key, _ := idempotency.DeliveryKey(r.item.Job, r.vendorID())
	return key
}

// item returns the row's key in the plane. The claim completes with the delivery's id.
func (b *Inbox) item(r *row) idempotency.Item {
	return idempotency.Item{
		Ref: idempotency.Ref{
			Organization: r.item.Organization,
			Scope:        b.scopes[r.provider()],
			Key:          r.key(),
		},
		Hash:     r.hash,
		ID:       r.mint(providers.ClaimID),
		Token:    r.mint(providers.LeaseToken),
		Resource: idempotency.ResourceRef{Type: "webhook_delivery", ID: r.mint(providers.DeliveryID).String()},
	}
}

// keepDrop makes the row a drop. It reports whether there is a row to write: beyond the bounds on what is kept, the
// drop ends here, counted but not stored.
func (b *Inbox) keepDrop(r *row, reason drops.Reason, detail string) bool {
	req := r.entry.work.Request
	r.kept = b.limiter.Admit(drops.Origin{Verifier: req.VerifiedBy.ID, Reason: reason}, req.ID, req.ReceivedAt)
	if !r.kept.Row {
		r.end(providers.Ending{Dropped: reason})
		return false
	}
	r.drop = &drops.Kept{
		ID:             r.mint(providers.DropID),
		Reason:         reason,
		Detail:         storable(detail, maxHeader),
		Provider:       req.Provider,
		OrganizationID: r.item.Organization,
		JobID:          r.item.Job,
		VerifiedBy:     string(req.VerifiedBy.Kind),
		VerifierID:     req.VerifiedBy.ID,
		PathJob:        req.Target.Job,
		PathSource:     req.Target.Source,
		RequestID:      req.ID,
		RequestSeed:    req.Seed,
		Position:       r.item.Position,
		EventType:      storable(r.item.Type, maxType),
		RequestHash:    r.item.Hash,
		Count:          r.kept.Count,
		ReceivedAt:     req.ReceivedAt,
	}
	if r.item.Job != uuid.Nil && reason != drops.Malformed {
		r.drop.DeliveryKey = r.key().String()
	}
	if r.kept.Body {
		r.drop.Headers = headersJSON(req.Headers)
		r.drop.ContentType = storable(req.ContentType, maxHeader)
		r.drop.ContentEncoding = storable(req.ContentEncoding, maxHeader)
		r.drop.Body = req.Body
	}
	return true
}

// parseHash reads the fingerprint that the parser made. If it is not one, which is our fault, the delivery fails.
func (b *Inbox) parseHash(r *row) bool {
	hash, err := idempotency.ParseHash(r.item.Hash)
	if err != nil {
		b.log.Error("parser made no fingerprint", "provider", r.provider(), "err", err)
		b.fail(r)
		return false
	}
	r.hash = hash
	return true
}
