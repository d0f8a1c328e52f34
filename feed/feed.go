// Package feed reads the inbox, agent.webhook_deliveries: one row for each delivery that the gateway kept.
// internal/inbox writes the table, and only this package reads it.
package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ErrNotFound says that no delivery has the id: it was never stored, or its day was dropped.
var ErrNotFound = errors.New("no such delivery")

// MaxList is the most deliveries that one List returns.
const MaxList = 1000

// Delivery is one row of the inbox. docs/reading.md describes its columns.
type Delivery struct {
	ID              uuid.UUID // UUIDv7; its time is ReceivedAt
	OrganizationID  uuid.UUID
	Provider        string
	JobID           uuid.UUID
	DeliveryKey     string // <job id>/<the vendor's id>, or <job id>/<ID> where the vendor gives none
	EventType       string
	RequestHash     string
	Headers         string // JSON: [[name, value], …]
	ContentType     string
	ContentEncoding string
	Body            []byte // as stored; only Find reads it
	Bytes           int    // the length of Body, read by List too
	OrderingKey     string
	ReceivedAt      time.Time // the gateway's clock
	StoredAt        time.Time // the database's clock
}

// Filter selects the deliveries that match every field that is set. A zero field matches all; a list that is empty
// but not nil matches none.
//
// Only the id has an index. Give every filter IDs, ReceivedFrom or StoredFrom: the primary key serves the first two,
// and the third limits the days that are read.
type Filter struct {
	IDs          []uuid.UUID
	Organization uuid.UUID
	Provider     string
	Job          uuid.UUID
	Keys         []string // of the column delivery_key
	Bodies       [][]byte // the whole body, as stored
	// Received in [ReceivedFrom, ReceivedUntil), to the millisecond, by the id.
	ReceivedFrom, ReceivedUntil time.Time
	// Stored in [StoredFrom, StoredUntil].
	StoredFrom, StoredUntil time.Time
	After                   uuid.UUID // the last id of the page before
	Limit                   int       // 1 to MaxList
}

// FirstID returns the smallest UUIDv7 of a time. Ids of deliveries and drops begin with the time of receipt, so a
// condition on the id limits what is read.
func FirstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id
}

// Reader reads deliveries. It is safe for concurrent use.
type Reader struct {
	db querier
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// NewReader returns a reader over a pool, a connection or a transaction, which stays the caller's.
func NewReader(db querier) *Reader { return &Reader{db: db} }

const columns = `id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers::text, content_type,
       content_encoding, octet_length(body), ordering_key, received_at, stored_at`

const findSQL = `SELECT ` + columns + `, body FROM agent.webhook_deliveries WHERE id = $1`

// Find returns the delivery with its body, or ErrNotFound.
func (r *Reader) Find(ctx context.Context, id uuid.UUID) (Delivery, error) {
	list, err := r.read(ctx, findSQL, id)
	if err != nil {
		return Delivery{}, fmt.Errorf("find delivery: %w", err)
	}
	if len(list) == 0 {
		return Delivery{}, ErrNotFound
	}
	return list[0], nil
}

// List returns a page of the deliveries that the filter selects, by id, without their bodies. For the next page, set
// After to the last id of this one; a page shorter than Limit is the last.
func (r *Reader) List(ctx context.Context, f Filter) ([]Delivery, error) {
	if f.Limit < 1 || f.Limit > MaxList {
		return nil, fmt.Errorf("list deliveries: limit %d is not between 1 and %d", f.Limit, MaxList)
	}
	sql, args := f.query()
	list, err := r.read(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return list, nil
}

// All yields every delivery that the filter selects, in the order of List. It reads one page at a time and ignores
// Limit. It ends after an error.
func (r *Reader) All(ctx context.Context, f Filter) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		f.Limit = MaxList
		for {
			page, err := r.List(ctx, f)
			if err != nil {
				yield(Delivery{}, err)
				return
			}
			for _, d := range page {
				if !yield(d, nil) {
					return
				}
			}
			if len(page) < f.Limit {
				return
			}
			f.After = page[len(page)-1].ID
		}
	}
}

// query returns the statement for a page. It names only the fields that are set: with a condition like "$1 IS NULL OR
// …" a generic plan could not use the primary key.
func (f *Filter) query() (sql string, args []any) {
	sql = `SELECT ` + columns + `, NULL::bytea FROM agent.webhook_deliveries WHERE true`
	and := func(set bool, condition string, value any) {
		if set {
			args = append(args, value)
			sql += fmt.Sprintf(` AND `+condition, len(args))
		}
	}
	and(f.IDs != nil, `id = ANY ($%d)`, f.IDs)
	and(f.Organization != uuid.Nil, `organization_id = $%d`, f.Organization)
	and(f.Provider != "", `provider = $%d`, f.Provider)
	and(f.Job != uuid.Nil, `job_id = $%d`, f.Job)
	and(f.Keys != nil, `delivery_key = ANY ($%d)`, f.Keys)
	and(f.Bodies != nil, `body = ANY ($%d)`, f.Bodies)
	and(!f.ReceivedFrom.IsZero(), `id >= $%d`, FirstID(f.ReceivedFrom))
	and(!f.ReceivedUntil.IsZero(), `id < $%d`, FirstID(f.ReceivedUntil))
	and(!f.StoredFrom.IsZero(), `stored_at >= $%d`, f.StoredFrom)
	and(!f.StoredUntil.IsZero(), `stored_at <= $%d`, f.StoredUntil)
	and(f.After != uuid.Nil, `id > $%d`, f.After)
	args = append(args, f.Limit)
	return sql + fmt.Sprintf(` ORDER BY id LIMIT $%d`, len(args)), args
}

// read runs a statement that selects the columns and the body.
func (r *Reader) read(ctx context.Context, sql string, args ...any) ([]Delivery, error) {
	rows, err := r.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Delivery, err error) {
		err = row.Scan(&d.ID, &d.OrganizationID, &d.Provider, &d.JobID, &d.DeliveryKey, &d.EventType, &d.RequestHash, &d.Headers,
			&d.ContentType, &d.ContentEncoding, &d.Bytes, &d.OrderingKey, &d.ReceivedAt, &d.StoredAt, &d.Body)
		return d, err
	})
}
