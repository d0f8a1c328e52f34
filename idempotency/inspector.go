package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxEntries is the maximum number of entries that List and Stuck return.
const MaxEntries = 1000

var errLimit = fmt.Errorf("idempotency: limit is not between 1 and %d", MaxEntries)

// Entry is a key for people to read. The database computed the rest of lease and retention; both are negative once they
// have passed.
type Entry struct {
	Organization uuid.UUID       `json:"organization_id"`
	Scope        string          `json:"scope"`
	Key          string          `json:"key"`
	ID           uuid.UUID       `json:"id"`
	Status       string          `json:"status"` // processing or completed
	Hash         string          `json:"request_hash"`
	Resource     ResourceRef     `json:"resource,omitzero"`
	Response     json.RawMessage `json:"response,omitempty"` // only from Show
	ClaimedAt    time.Time       `json:"claimed_at"`
	LeaseLeft    time.Duration   `json:"lease_left_ns"`
	RetainLeft   time.Duration   `json:"retain_left_ns"`
}

// Redrive says what happens if the command is sent again with the same key and content, and whether that is safe for an
// effect at a vendor that takes no keys.
func (e Entry) Redrive() (safe bool, why string) {
	switch {
	case e.RetainLeft <= 0:
		return false, "past its retention: the key is forgotten and the effect would be made again"
	case e.Status == "completed":
		return true, "completed: the stored answer is replayed and no effect is made; a new effect needs a new step id"
	case e.LeaseLeft > 0:
		return true, "in flight: a worker holds the lease; wait until it has ended or passed"
	default:
		return false, "its worker is gone and may have made the effect: safe only if the vendor takes the key or the handler reconciles"
	}
}

// Inspector reads keys for people. It never writes, and also returns rows past their retention.
type Inspector struct{ db DB }

// NewInspector returns an Inspector.
func NewInspector(db DB) *Inspector { return &Inspector{db: db} }

const entryColumns = `organization_id, scope, key, id, status, request_hash, coalesce(resource_type, ''), coalesce(resource_id, ''),
	claimed_at, lease_expires_at - clock_timestamp(), retain_until - clock_timestamp()`

const showSQL = `SELECT ` + entryColumns + `, response::text
	FROM agent.idempotency_keys WHERE organization_id = $1 AND scope = $2 AND key = $3`

// Show returns the entry of a key, as an Observer logged it, with its stored response; nil if there is none.
func (i *Inspector) Show(ctx context.Context, organization uuid.UUID, scope, key string) (*Entry, error) {
	rows, err := i.db.Query(ctx, showSQL, organization, scope, key)
	if err != nil {
		return nil, fmt.Errorf("show key: %w", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Entry, error) {
		var response *string
		e, err := scanEntry(row, &response)
		if response != nil {
			e.Response = json.RawMessage(*response)
		}
		return e, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("show key: %w", err)
	}
	return &e, nil
}

// Page selects entries for List: of one organization, ordered by scope and key.
type Page struct {
	Organization         uuid.UUID
	Scope                string // all if empty
	Prefix               string // of the key
	AfterScope, AfterKey string // of the previous page's last entry
	Limit                int    // at most MaxEntries
}

const listSQL = `SELECT ` + entryColumns + `
	  FROM agent.idempotency_keys
	 WHERE organization_id = $1 AND ($2 = '' OR scope = $2) AND starts_with(key, $3) AND (scope, key) > ($4, $5)
	 ORDER BY scope, key
	 LIMIT $6`

// List returns a page of an organization's entries.
func (i *Inspector) List(ctx context.Context, p Page) ([]Entry, error) {
	if p.Limit < 1 || p.Limit > MaxEntries {
		return nil, errLimit
	}
	return i.collect(ctx, listSQL, p.Organization, p.Scope, p.Prefix, p.AfterScope, p.AfterKey, p.Limit)
}

// The hot path does not look keys up by their lease, so there is no index for it: the statement reads the whole table,
// most of which is completed rows.
const stuckSQL = `SELECT ` + entryColumns + `
	  FROM agent.idempotency_keys
	 WHERE status = 'processing' AND lease_expires_at < now() - $1::interval AND retain_until > now()
	 ORDER BY lease_expires_at
	 LIMIT $2`

// Stuck returns the claims of all organizations whose lease passed longer ago than since and that no worker reclaimed.
// The worker died, and the command was not sent again. It reads the whole table.
func (i *Inspector) Stuck(ctx context.Context, since time.Duration, limit int) ([]Entry, error) {
	if limit < 1 || limit > MaxEntries {
		return nil, errLimit
	}
	return i.collect(ctx, stuckSQL, since, limit)
}

func (i *Inspector) collect(ctx context.Context, sql string, args ...any) ([]Entry, error) {
	rows, err := i.db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Entry, error) { return scanEntry(row) })
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return entries, nil
}

func scanEntry(row pgx.CollectableRow, after ...any) (e Entry, err error) {
	err = row.Scan(append([]any{
		&e.Organization, &e.Scope, &e.Key, &e.ID, &e.Status, &e.Hash, &e.Resource.Type, &e.Resource.ID,
		&e.ClaimedAt, &e.LeaseLeft, &e.RetainLeft,
	}, after...)...)
	return e, err
}
