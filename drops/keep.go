package drops

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Kept is a row of agent.webhook_drops. A zero id is stored as NULL, and so is an empty text in the columns that allow it.
// Text must be valid UTF-8 without NUL. Text that is too long is cut.
type Kept struct {
	ID             uuid.UUID // the delivery's drop id, the same on every repeat
	Reason         Reason    // never Duplicate
	Detail         string    // our own words: why it is malformed, which identity differs
	Provider       string
	OrganizationID uuid.UUID
	JobID          uuid.UUID
	VerifiedBy     string // whose secret: source or job
	VerifierID     uuid.UUID
	PathJob        uuid.UUID // of the URL; neither: its id cannot be read
	PathSource     string
	RequestID      uuid.UUID
	RequestSeed    []byte // what the ids were minted from
	Position       int    // the delivery's place in its request
	DeliveryKey    string
	EventType      string
	RequestHash    string
	// The request as it was received; Headers is JSON. When Headers is empty, the request is not kept with this row and
	// the other three are ignored.
	Headers         string
	ContentType     string
	ContentEncoding string
	Body            []byte
	Count           int // how many drops the row stands for, 1 or more
	ReceivedAt      time.Time
	StoredAt        time.Time // the database's clock; Queue does not read it
}

// The bounds of texts, in bytes. Our own are far shorter.
const (
	maxDetail      = 500
	maxName        = 200
	maxKey         = 512
	maxContentType = 1000
)

// One statement serves any number of rows, so that it is prepared once. Its rows share one stored_at: the row that holds a
// request's body is never swept long before the rows that refer to it. Rows are inserted in the order of their ids: two
// writers of the same rows wait for each other, and without the order they would deadlock.
const insertSQL = `
INSERT INTO agent.webhook_drops
       (id, reason, detail, provider, organization_id, job_id, verified_by, verifier_id, path_job, path_source,
        request_id, request_seed, position, delivery_key, event_type, request_hash,
        headers, content_type, content_encoding, body, count, received_at, stored_at)
SELECT id, reason, detail, provider, nullif(organization_id, $23), nullif(job_id, $23), verified_by, verifier_id,
       nullif(path_job, $23), nullif(path_source, ''),
       request_id, request_seed, position, delivery_key, event_type, request_hash,
       nullif(headers, '')::json, nullif(content_type, ''), nullif(content_encoding, ''), body, count, received_at,
       statement_timestamp()
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::text[], $8::uuid[],
              $9::uuid[], $10::text[], $11::uuid[], $12::bytea[], $13::integer[], $14::text[], $15::text[],
              $16::text[], $17::text[], $18::text[], $19::text[], $20::bytea[], $21::integer[], $22::timestamptz[])
       AS d(id, reason, detail, provider, organization_id, job_id, verified_by, verifier_id,
            path_job, path_source, request_id, request_seed, position, delivery_key, event_type,
            request_hash, headers, content_type, content_encoding, body, count, received_at)
 ORDER BY id
    ON CONFLICT (id) DO NOTHING`

// Queue adds to the batch one statement that inserts the rows; none for no rows. It leaves a row that exists as it is, so
// a transaction may be repeated when it is unknown whether it committed. When several rows keep the same request, only
// the first of them by position stores the body; Store.Find gives it to the others. The slice is not changed.
func Queue(b *pgx.Batch, rows []Kept) {
	if len(rows) == 0 {
		return
	}
	b.Queue(insertSQL, columnsOf(rows)...)
}

// columnsOf returns the statement's arguments.
func columnsOf(rows []Kept) []any {
	n := len(rows)
	var (
		ids, organizations, jobs, verifiers  = make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
		pathJobs, requests                   = make([]uuid.UUID, n), make([]uuid.UUID, n)
		reasons, details, providers, holders = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		pathSources, keys, types, hashes     = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		headers, contentTypes, encodings     = make([]string, n), make([]string, n), make([]string, n)
		seeds                                = make([][]byte, n)
		positions, counts                    = make([]int32, n), make([]int32, n)
		received                             = make([]time.Time, n)
	)
	for i := range rows {
		r := &rows[i]
		ids[i], organizations[i], jobs[i], verifiers[i] = r.ID, r.OrganizationID, r.JobID, r.VerifierID
		pathJobs[i], requests[i] = r.PathJob, r.RequestID
		reasons[i], details[i] = string(r.Reason), cut(r.Detail, maxDetail)
		providers[i], holders[i] = r.Provider, r.VerifiedBy
		pathSources[i], keys[i] = cut(r.PathSource, maxName), cut(r.DeliveryKey, maxKey)
		types[i], hashes[i] = cut(r.EventType, maxName), cut(r.RequestHash, maxName)
		if r.Headers != "" {
			headers[i] = r.Headers
			contentTypes[i], encodings[i] = cut(r.ContentType, maxContentType), cut(r.ContentEncoding, maxContentType)
		}
		seeds[i] = r.RequestSeed
		positions[i], counts[i] = int32(r.Position), int32(min(r.Count, math.MaxInt32))
		received[i] = r.ReceivedAt
	}
	return []any{
		ids, reasons, details, providers, organizations, jobs, holders, verifiers, pathJobs, pathSources,
		requests, seeds, positions, keys, types, hashes, headers, contentTypes, encodings,
		bodiesOf(rows), counts, received, uuid.Nil,
	}
}

// bodiesOf returns a body for one row of each request: the first, by position, that keeps the request.
func bodiesOf(rows []Kept) [][]byte {
	first := make(map[uuid.UUID]int, len(rows))
	for i := range rows {
		if rows[i].Headers == "" {
			continue
		}
		if j, ok := first[rows[i].RequestID]; !ok || rows[i].Position < rows[j].Position {
			first[rows[i].RequestID] = i
		}
	}
	bodies := make([][]byte, len(rows))
	for _, i := range first {
		bodies[i] = rows[i].Body
		if bodies[i] == nil {
			bodies[i] = []byte{} // an empty body; NULL means that it was not kept
		}
	}
	return bodies
}

// cut shortens a text to at most limit bytes, between two characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
