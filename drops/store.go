package drops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotFound says that no drop has the id: it never had a row, or its row was swept.
var ErrNotFound = errors.New("no such drop")

// ErrNotKept says that a drop has no request: beyond the limiter's bounds only its row is kept.
var ErrNotKept = errors.New("the request was not kept: more than 100 drops of its source or job and reason that minute")

// Store reads and sweeps the kept drops. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
}

// NewStore returns a store over the pool, which stays the caller's.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// MaxList is the most drops that one List returns. It holds them in memory.
const MaxList = 100_000

// Filter selects drops: those that match every field that is set.
type Filter struct {
	Reason       Reason
	Provider     string
	Organization uuid.UUID
	Job          uuid.UUID // the job that was resolved, or that the URL named
	Since        time.Time // stored then or later
	Limit        int       // 1 to MaxList
	After        Cursor    // of the last drop of the page before
}

// Cursor is a place in a list. The zero value is its beginning.
type Cursor struct {
	StoredAt time.Time
	ID       uuid.UUID
}

// Cursor returns the drop's place in a list. A List After it begins with the next drop.
func (k *Kept) Cursor() Cursor { return Cursor{StoredAt: k.StoredAt, ID: k.ID} }

// columns are those of a drop without its request.
const columns = `id, reason, detail, provider, organization_id, job_id, verified_by, verifier_id, path_job, path_source,
       request_id, request_seed, position, delivery_key, event_type, request_hash, count, received_at, stored_at`

// The index on stored_at serves the first two conditions; a row comparison bounds its first column too.
const listSQL = `
SELECT ` + columns + `, NULL::text, NULL::text, NULL::text, NULL::bytea
  FROM agent.webhook_drops
 WHERE stored_at >= coalesce($1, '-infinity'::timestamptz)
   AND (stored_at, id) < (coalesce($2, 'infinity'::timestamptz), $3)
   AND ($4 = '' OR reason = $4)
   AND ($5 = '' OR provider = $5)
   AND ($6::uuid IS NULL OR organization_id = $6)
   AND ($7::uuid IS NULL OR job_id = $7 OR path_job = $7)
 ORDER BY stored_at DESC, id DESC
 LIMIT $8`

// List returns the drops that the filter selects, the newest first, without their requests, and whether there are more.
func (s *Store) List(ctx context.Context, f Filter) (list []Kept, more bool, err error) {
	if f.Limit < 1 || f.Limit > MaxList {
		return nil, false, fmt.Errorf("list drops: limit %d is not between 1 and %d", f.Limit, MaxList)
	}
	list, err = s.read(ctx, listSQL, known(f.Since), known(f.After.StoredAt), f.After.ID,
		string(f.Reason), f.Provider, known(f.Organization), known(f.Job), f.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list drops: %w", err)
	}
	if len(list) > f.Limit {
		return list[:f.Limit], true, nil
	}
	return list, false, nil
}

// IDs returns the ids of a list.
func IDs(list []Kept) []uuid.UUID {
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

// The body may be in another row of the request. Headers and types are the same in all of its rows, so they are read from
// there too.
const findSQL = `
SELECT ` + columns + `, r.headers::text, r.content_type, r.content_encoding, r.body
  FROM agent.webhook_drops d
  LEFT JOIN LATERAL (
       SELECT headers, content_type, content_encoding, body
         FROM agent.webhook_drops
        WHERE request_id = d.request_id AND body IS NOT NULL
        ORDER BY position, id
        LIMIT 1) r ON true
 WHERE d.id = $1`

// Find returns a drop with its request, which may be stored with another drop. When the request was not kept, Headers is
// empty and Body nil. It returns ErrNotFound when there is no such drop.
func (s *Store) Find(ctx context.Context, id uuid.UUID) (Kept, error) {
	list, err := s.read(ctx, findSQL, id)
	if err != nil {
		return Kept{}, fmt.Errorf("find drop: %w", err)
	}
	if len(list) == 0 {
		return Kept{}, ErrNotFound
	}
	return list[0], nil
}

// An id begins with the time of receipt, so a bound on it keeps the primary key from reading older drops.
const bodiesSQL = `
SELECT ` + columns + `, headers::text, content_type, content_encoding, body
  FROM agent.webhook_drops
 WHERE id >= $1 AND provider = $2 AND body = ANY ($3)
 ORDER BY id`

// FindBodies returns the drops whose row holds one of the bodies, byte for byte, with their requests, by id. Of several
// drops of one request only one holds it. It reads no drop with an id below from: feed.FirstID makes that of a time.
func (s *Store) FindBodies(ctx context.Context, from uuid.UUID, provider string, bodies [][]byte) ([]Kept, error) {
	list, err := s.read(ctx, bodiesSQL, from, provider, bodies)
	if err != nil {
		return nil, fmt.Errorf("find drops by body: %w", err)
	}
	return list, nil
}

const countBodySQL = `
SELECT reason, sum(count)::integer
  FROM agent.webhook_drops
 WHERE id >= $1 AND provider = $2
   AND request_id IN (SELECT request_id FROM agent.webhook_drops WHERE id >= $1 AND provider = $2 AND body = $3)
 GROUP BY reason`

// CountBody counts, by reason, all drops of the requests that have this body, those too that share a row (Kept.Count).
// It reads no drop with an id below from, as FindBodies.
func (s *Store) CountBody(ctx context.Context, from uuid.UUID, provider string, body []byte) (map[Reason]int, error) {
	counts := make(map[Reason]int)
	rows, err := s.pool.Query(ctx, countBodySQL, from, provider, body)
	if err == nil {
		var reason Reason
		var n int
		_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error { counts[reason] = n; return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("count drops by body: %w", err)
	}
	return counts, nil
}

// RequestReasons returns why deliveries of a request were dropped, by their position in it. A position that is missing
// was kept, was a duplicate, or is no longer known.
func (s *Store) RequestReasons(ctx context.Context, request uuid.UUID) (map[int]Reason, error) {
	reasons := make(map[int]Reason)
	rows, err := s.pool.Query(ctx, `SELECT position, reason FROM agent.webhook_drops WHERE request_id = $1`, request)
	if err == nil {
		var position int
		var reason Reason
		_, err = pgx.ForEachRow(rows, []any{&position, &reason}, func() error { reasons[position] = reason; return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("list reasons of a request: %w", err)
	}
	return reasons, nil
}

// read runs a statement that selects the columns and those of the request.
func (s *Store) read(ctx context.Context, sql string, args ...any) ([]Kept, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func scan(row pgx.CollectableRow) (Kept, error) {
	var (
		k                                          Kept
		organization, job, pathJob                 *uuid.UUID
		pathSource, headers, contentType, encoding *string
	)
	err := row.Scan(&k.ID, &k.Reason, &k.Detail, &k.Provider, &organization, &job, &k.VerifiedBy, &k.VerifierID,
		&pathJob, &pathSource, &k.RequestID, &k.RequestSeed, &k.Position, &k.DeliveryKey, &k.EventType,
		&k.RequestHash, &k.Count, &k.ReceivedAt, &k.StoredAt, &headers, &contentType, &encoding, &k.Body)
	k.OrganizationID, k.JobID, k.PathJob = value(organization), value(job), value(pathJob)
	k.PathSource, k.Headers = value(pathSource), value(headers)
	k.ContentType, k.ContentEncoding = value(contentType), value(encoding)
	return k, err
}

// known returns nil for the zero value, which is NULL to the database.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// value returns the zero value for NULL.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
