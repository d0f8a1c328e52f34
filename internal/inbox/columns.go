package inbox

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// columns are the inbox rows of a transaction's claims, as the parameters of one statement.
type columns struct {
	claimIDs, ids, organizations, jobs           [][16]byte // pgx would send uuid.UUID as text, because it is a driver.Valuer
	providers, keys, types, hashes, headers      []string
	contentTypes, contentEncodings, orderingKeys []string
	bodies                                       [][]byte
	received                                     []time.Time
}

func newColumns(n int) *columns {
	uuids, texts := make([][16]byte, 4*n), make([]string, 8*n)
	u := func(i int) [][16]byte { return uuids[i*n : i*n : (i+1)*n] }
	s := func(i int) []string { return texts[i*n : i*n : (i+1)*n] }
	return &columns{
		claimIDs: u(0), ids: u(1), organizations: u(2), jobs: u(3),
		providers: s(0), keys: s(1), types: s(2), hashes: s(3), headers: s(4),
		contentTypes: s(5), contentEncodings: s(6), orderingKeys: s(7),
		bodies: make([][]byte, 0, n), received: make([]time.Time, 0, n),
	}
}

func (c *columns) add(r *row, item *idempotency.Item) {
	req := r.entry.work.Request
	body, encoding := r.body()
	c.claimIDs = append(c.claimIDs, item.ID)
	c.ids = append(c.ids, r.mint(providers.DeliveryID))
	c.organizations = append(c.organizations, r.item.Organization)
	c.jobs = append(c.jobs, r.item.Job)
	c.providers = append(c.providers, req.Provider)
	c.keys = append(c.keys, item.Key.String())
	c.types = append(c.types, storable(r.item.Type, maxType))
	c.hashes = append(c.hashes, r.item.Hash)
	c.headers = append(c.headers, headersJSON(req.Headers))
	c.contentTypes = append(c.contentTypes, storable(req.ContentType, maxHeader))
	c.contentEncodings = append(c.contentEncodings, storable(encoding, maxHeader))
	c.orderingKeys = append(c.orderingKeys, storable(r.item.OrderingKey, maxOrdering))
	c.bodies = append(c.bodies, body)
	c.received = append(c.received, req.ReceivedAt)
}

// args puts the largest last: anything after it would make pgx copy it once more.
func (c *columns) args() []any {
	return []any{
		c.claimIDs, c.ids, c.organizations, c.jobs, c.providers, c.keys, c.types, c.hashes,
		c.headers, c.contentTypes, c.contentEncodings, c.orderingKeys, c.received, c.bodies,
	}
}

// insertSQL inserts inbox rows from arrays, whose parameters begin at number first.
func insertSQL(first int) string {
	types := []string{
		"uuid", "uuid", "uuid", "uuid", "text", "text", "text", "text",
		"text", "text", "text", "text", "timestamptz", "bytea",
	}
	arrays := ""
	for i, t := range types {
		if i > 0 {
			arrays += ", "
		}
		arrays += "$" + strconv.Itoa(first+i) + "::" + t + "[]"
	}
	return `
	INSERT INTO agent.webhook_deliveries
	       (id, organization_id, provider, job_id, delivery_key, event_type, request_hash,
	        headers, content_type, content_encoding, body, ordering_key, received_at)
	SELECT d.id, d.organization_id, d.provider, d.job_id, d.delivery_key, d.event_type, d.request_hash,
	       d.headers::json, d.content_type, d.content_encoding, d.body, d.ordering_key, d.received_at
	  FROM unnest(` + arrays + `)
	       AS d(claim_id, id, organization_id, job_id, provider, delivery_key, event_type, request_hash,
	            headers, content_type, content_encoding, ordering_key, received_at, body)`
}

// insertClaimed inserts the inbox rows of the claims won: it joins the rows that the claim's own INSERT
// returned, so a repeat, which inserts no claim, inserts no row.
var insertClaimed = insertSQL(idempotency.EffectParam) + `
	  JOIN claimed ON claimed.id = d.claim_id`

var insertAlone = insertSQL(1)

// insertOne inserts the inbox row of a claim that the same transaction holds.
func insertOne(ctx context.Context, tx pgx.Tx, r *row, item idempotency.Item) error {
	c := newColumns(1)
	c.add(r, &item)
	_, err := tx.Exec(ctx, insertAlone, c.args()...)
	return err
}
