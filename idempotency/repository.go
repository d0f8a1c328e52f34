package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/sqlstate"
)

// DB runs the statements: a pool, a connection or a transaction of pgx.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// record is one row. The database computed leasePassed, forgotten and remaining in the statement that read the row: no
// caller compares a stored time with its own clock.
type record struct {
	Identity
	Hash      string
	Completed bool
	Answer    Answer

	LeasePassed bool
	Forgotten   bool          // past its retention, not swept yet
	Remaining   time.Duration // of the lease; negative once it has passed
}

// repository owns the SQL. Each method is one atomic change of one key, without a decision about it. A nil record means
// that the condition of the change did not hold, which is normal.
type repository struct {
	db       DB
	nested   bool // in a caller's transaction, which an error must not abort
	lockWait time.Duration
}

// terms are the values of a new claim. They are durations, not instants: the database's clock computes the instants.
type terms struct {
	Identity
	Hash      Hash
	Lease     time.Duration
	Retention time.Duration // at least Lease
}

const readCommitted = "read committed" // as PostgreSQL spells it

const recordColumns = `id, lease_token, request_hash, status = 'completed', response::text, resource_type, resource_id,
	lease_expires_at <= clock_timestamp(), retain_until <= clock_timestamp(), lease_expires_at - clock_timestamp()`

// clock_timestamp() and not now(): in a long transaction a lease would start in the past. It is called once, so that
// retain_until is never below lease_expires_at. DurableCommit is here because it costs less than in a statement that
// sends its columns back.
const insertSQL = `
	INSERT INTO agent.idempotency_keys
	       (id, organization_id, scope, key, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)
	SELECT $1, $2, $3, $4, $5, $6, t.now, t.now + $7::interval, t.now + $8::interval
	  FROM (SELECT clock_timestamp(), ` + DurableCommit + `) AS t(now)
	 WHERE current_setting('transaction_isolation') = 'read committed'
	    ON CONFLICT (organization_id, scope, key) DO NOTHING`

const getSQL = `
	SELECT current_setting('transaction_isolation'), ` + recordColumns + `
	  FROM (SELECT) AS one
	  LEFT JOIN agent.idempotency_keys ON organization_id = $1 AND scope = $2 AND key = $3`

// tryClaim inserts the key unless it exists, and returns the resulting row, which is the caller's if it has the
// caller's token. Nil: the existing row vanished in between. It takes two statements, because only a second statement
// sees a row that the first has waited for.
func (r *repository) tryClaim(ctx context.Context, ref Ref, t terms) (*record, error) {
	var found *record
	err := r.sendAfter(ctx, boundSQL, func(b *pgx.Batch) {
		b.Queue(insertSQL, t.ID, ref.Organization, ref.Scope.name, ref.Key.text, t.Hash.text, t.Token, t.Lease, t.Retention)
		b.Queue(getSQL, ref.Organization, ref.Scope.name, ref.Key.text).Query(func(rows pgx.Rows) (err error) {
			found, err = scanStanding(rows)
			return err
		})
	})
	return found, err
}

// get returns the row of the key, nil if there is none. It writes nothing and waits for no lock.
func (r *repository) get(ctx context.Context, ref Ref) (*record, error) {
	var found *record
	err := r.send(ctx, func(b *pgx.Batch) {
		b.Queue(getSQL, ref.Organization, ref.Scope.name, ref.Key.text).Query(func(rows pgx.Rows) (err error) {
			found, err = scanStanding(rows)
			return err
		})
	})
	return found, err
}

const reclaimSQL = `
	UPDATE agent.idempotency_keys
	   SET id = $6, lease_token = $3, claimed_at = clock_timestamp(), lease_expires_at = clock_timestamp() + $4::interval,
	       retain_until = greatest(retain_until, clock_timestamp() + $5::interval)
	 WHERE id = $1 AND lease_token = $2 AND status = 'processing' AND lease_expires_at <= clock_timestamp()
	RETURNING ` + recordColumns

// reclaim moves a passed lease from the token that the caller saw to the caller's own. Nil: another worker was faster,
// or the claim ended. It never shortens the retention. The row keeps its id, which tells a reclaim from a claim, unless
// the caller made the row itself by an earlier claim under the same Identity: then the row gets a new id.
func (r *repository) reclaim(ctx context.Context, seen Identity, t terms) (*record, error) {
	id := seen.ID
	if id == t.ID {
		id = Mint().ID
	}
	return r.change(ctx, reclaimSQL, seen.ID, seen.Token, t.Token, t.Lease, t.Retention, id)
}

const takeOverSQL = `
	UPDATE agent.idempotency_keys
	   SET id = $3, lease_token = $4, request_hash = $5, status = 'processing',
	       response = NULL, resource_type = NULL, resource_id = NULL, claimed_at = clock_timestamp(),
	       lease_expires_at = clock_timestamp() + $6::interval, retain_until = clock_timestamp() + $7::interval
	 WHERE id = $1 AND lease_token = $2 AND retain_until <= clock_timestamp()
	RETURNING ` + recordColumns

// takeOver turns a row that is past its retention, and not swept yet, into a new claim. Nothing of the old claim
// remains: its id and token can no longer end anything. Nil: another worker or the sweep was faster.
func (r *repository) takeOver(ctx context.Context, seen Identity, t terms) (*record, error) {
	return r.change(ctx, takeOverSQL, seen.ID, seen.Token, t.ID, t.Token, t.Hash.text, t.Lease, t.Retention)
}

const extendSQL = `
	UPDATE agent.idempotency_keys
	   SET lease_expires_at = clock_timestamp() + $3::interval,
	       retain_until = greatest(retain_until, clock_timestamp() + $3::interval)
	 WHERE id = $1 AND lease_token = $2 AND status = 'processing'
	RETURNING ` + recordColumns

// extend renews the whole lease of a claim that is still held. Nil: another worker owns the key, or the claim ended.
func (r *repository) extend(ctx context.Context, held Identity, lease time.Duration) (*record, error) {
	return r.change(ctx, extendSQL, held.ID, held.Token, lease)
}

// The condition on status prevents a second completion from overwriting the first answer. There is no condition on the
// lease: a late effect was still made, unless another worker took the claim over. retain_until and the lease do not
// change, so the update needs no new index entry.
const completeSQL = `
	UPDATE agent.idempotency_keys
	   SET status = 'completed', response = $3::text::json, resource_type = $4, resource_id = $5
	 WHERE id = $1 AND lease_token = $2 AND status = 'processing'
	RETURNING ` + recordColumns

// complete stores the answer under the fence. Nil: another worker owns the key, or the claim had ended.
func (r *repository) complete(ctx context.Context, held Identity, a Answer) (*record, error) {
	response, typ, id := a.columns()
	return r.change(ctx, completeSQL, held.ID, held.Token, response, typ, id)
}

const releaseSQL = `DELETE FROM agent.idempotency_keys WHERE id = $1 AND lease_token = $2 AND status = 'processing'`

// release deletes an unfinished claim under the fence. False: another worker owns the key, or the claim had ended.
func (r *repository) release(ctx context.Context, held Identity) (bool, error) {
	var gone bool
	err := r.send(ctx, func(b *pgx.Batch) {
		b.Queue(releaseSQL, held.ID, held.Token).Exec(func(tag pgconn.CommandTag) error {
			gone = tag.RowsAffected() == 1
			return nil
		})
	})
	return gone, err
}

const lapseSQL = `
	UPDATE agent.idempotency_keys SET lease_expires_at = least(lease_expires_at, clock_timestamp()) -- never past the retention
	 WHERE id = $1 AND lease_token = $2 AND status = 'processing'
	RETURNING ` + recordColumns

// lapse ends the lease of an unfinished claim that is still held, and keeps the row, so that the next worker learns
// that an earlier one held it. Nil: another worker owns the key, or the claim had ended.
func (r *repository) lapse(ctx context.Context, held Identity) (*record, error) {
	return r.change(ctx, lapseSQL, held.ID, held.Token)
}

const heldSQL = `SELECT ` + recordColumns + ` FROM agent.idempotency_keys WHERE id = $1 AND lease_token = $2`

// held returns the row that still has the claim's id and token, nil if there is none.
func (r *repository) held(ctx context.Context, held Identity) (*record, error) {
	return r.change(ctx, heldSQL, held.ID, held.Token)
}

const knownSQL = `SELECT EXISTS (SELECT FROM agent.idempotency_keys WHERE id = $1)`

// idExists reports whether a row has the id, in any organization.
func (r *repository) idExists(ctx context.Context, id uuid.UUID) (bool, error) {
	var known bool
	err := r.send(ctx, func(b *pgx.Batch) {
		b.Queue(knownSQL, id).QueryRow(func(row pgx.Row) error { return row.Scan(&known) })
	})
	return known, err
}

// change runs a statement that returns the row it changed or found, or none.
func (r *repository) change(ctx context.Context, sql string, args ...any) (*record, error) {
	var changed *record
	err := r.send(ctx, func(b *pgx.Batch) {
		b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
			changed, err = scanOne(rows)
			return err
		})
	})
	return changed, err
}

const (
	// A connection keeps the plan that it made while the table was small, which reads the whole table for each key.
	// Once the table is large, the next batch would not end in time.
	// lock_timeout bounds only the locks of later statements: one that sets it has locked its tables before.
	boundSQL = `SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true)`
	waitSQL  = boundSQL + `, ` + DurableCommit
	// In a caller's transaction the caller's settings must be restored afterwards.
	lendSQL = `SELECT set_config('idempotency.lock_timeout', current_setting('lock_timeout'), true),
	                  set_config('lock_timeout', $1, true),
	                  set_config('idempotency.enable_seqscan', current_setting('enable_seqscan'), true),
	                  set_config('enable_seqscan', 'off', true), ` + DurableCommit
	returnSQL = `SELECT set_config('lock_timeout', current_setting('idempotency.lock_timeout'), true),
	                    set_config('enable_seqscan', current_setting('idempotency.enable_seqscan'), true)`
	savepointSQL = `SAVEPOINT idempotency`
	releaseToSQL = `RELEASE SAVEPOINT idempotency`
	rollbackSQL  = `ROLLBACK TO SAVEPOINT idempotency`
)

// send runs statements in one round trip, with bounded waits for locks. Alone they are one implicit transaction. In a
// caller's transaction they run in a savepoint, so that an error does not abort the caller's work.
func (r *repository) send(ctx context.Context, queue func(*pgx.Batch)) error {
	return r.sendAfter(ctx, waitSQL, queue)
}

// sendAfter is send with another first statement than waitSQL.
func (r *repository) sendAfter(ctx context.Context, first string, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	wait := strconv.FormatInt(max(r.lockWait.Milliseconds(), 1), 10) + "ms"
	if !r.nested {
		b.Queue(first, wait)
		queue(b)
		return explain(r.db.SendBatch(ctx, b).Close())
	}
	b.Queue(savepointSQL)
	b.Queue(lendSQL, wait)
	queue(b)
	b.Queue(returnSQL)
	b.Queue(releaseToSQL)
	err := r.db.SendBatch(ctx, b).Close()
	if err == nil {
		return nil
	}
	// An error of ours came after all of it was done. One of the server's undid nothing yet.
	if sqlstate.Of(err) != "" {
		if _, back := r.db.Exec(ctx, rollbackSQL); back == nil {
			_, back = r.db.Exec(ctx, releaseToSQL)
			err = errors.Join(err, back)
		}
	}
	return explain(err)
}

// scanStanding reads the result of getSQL: one row, of nulls if the key does not exist.
func scanStanding(rows pgx.Rows) (*record, error) {
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, err
		}
		return nil, errors.New("no row for a key")
	}
	var isolation string
	rec, err := scanRecord(rows, &isolation)
	if err != nil {
		return nil, err
	}
	if isolation != readCommitted {
		return nil, fmt.Errorf("%w (it is %s)", ErrIsolation, isolation)
	}
	return rec, nil
}

// scanOne reads at most one record.
func scanOne(rows pgx.Rows) (*record, error) {
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	return scanRecord(rows)
}

// scanRecord reads recordColumns, which follow the columns in before. Nil: all of them are null.
func scanRecord(rows pgx.Rows, before ...any) (*record, error) {
	var (
		id, token                         *uuid.UUID
		hash, response, typ, resource     *string
		completed, leasePassed, forgotten *bool
		remaining                         *time.Duration
	)
	err := rows.Scan(append(before, &id, &token, &hash, &completed, &response, &typ, &resource,
		&leasePassed, &forgotten, &remaining)...)
	if err != nil || id == nil {
		return nil, err
	}
	rec := &record{
		Identity:    Identity{ID: *id, Token: *token},
		Hash:        *hash,
		Completed:   *completed,
		LeasePassed: *leasePassed,
		Forgotten:   *forgotten,
		Remaining:   *remaining,
	}
	if response != nil {
		rec.Answer.Response = json.RawMessage(*response)
	}
	if typ != nil && resource != nil {
		rec.Answer.Resource = ResourceRef{Type: *typ, ID: *resource}
	}
	return rec, nil
}
