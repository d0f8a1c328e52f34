package idempotency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Wanted is one key of a ClaimMany.
type Wanted struct {
	Ref
	Content Fingerprint
}

const claimManySQL = `
	INSERT INTO agent.idempotency_keys
	       (id, organization_id, scope, key, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)
	SELECT u.id, u.organization, u.scope, u.key, u.hash, u.token, t.now, t.now + $8::interval, t.now + u.retain * interval '1 microsecond'
	  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::bigint[])
	       AS u(id, organization, scope, key, hash, token, retain),
	       clock_timestamp() AS t(now)
	 WHERE current_setting('transaction_isolation') = 'read committed'
	 ORDER BY u.organization, u.scope COLLATE "C", u.key COLLATE "C"
	    ON CONFLICT (organization_id, scope, key) DO NOTHING`

// The statement returns one row per key, with nulls for a missing key, so that it always returns the isolation level.
const getManySQL = `
	SELECT current_setting('transaction_isolation'), u.n, ` + recordColumns + `
	  FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS u(organization, scope, key, n)
	  LEFT JOIN LATERAL (SELECT * FROM agent.idempotency_keys
	                      WHERE organization_id = u.organization AND scope = u.scope AND key = u.key LIMIT 1) AS k ON true`

// ClaimMany claims keys in any order, with repeats, as if Claim were called for one after the other. The insert and the
// read of the rows are one round trip; keys that must be taken over are then claimed singly. Outcomes are in the order
// given. A bad item is an error that names its index, before anything is sent. After any other error, Unsettled
// outcomes are not claimed and the others hold. Call ClaimMany at most once per transaction: two calls together are not
// sorted and can deadlock.
func (s *Service) ClaimMany(ctx context.Context, wanted []Wanted, lease time.Duration) ([]Outcome, error) {
	if err := validateLease(lease); err != nil {
		return nil, err
	}
	for i, w := range wanted {
		if err := validate(w.Ref, w.Content); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	return runDetached(ctx, s, func(ctx context.Context, s *Service) ([]Outcome, error) { return s.claimMany(ctx, wanted, lease) },
		func(all []Outcome) []Outcome { return all })
}

func (s *Service) claimMany(ctx context.Context, wanted []Wanted, lease time.Duration) ([]Outcome, error) {
	order, first := distinct(len(wanted), func(a, b int32) int { return compareRefs(&wanted[a].Ref, &wanted[b].Ref) })
	outcomes := make([]Outcome, len(wanted))
	for i := range outcomes {
		outcomes[i] = Outcome{Kind: Unsettled, ref: wanted[i].Ref}
	}
	claims := make([]*claiming, len(order))
	for at, i := range order {
		claims[at] = s.claiming(Mint(), wanted[i].Ref, wanted[i].Content, lease)
	}
	started := time.Now()
	records, err := s.claimRows(ctx, claims)
	if err != nil {
		return outcomes, fmt.Errorf("claim %d keys: %w", len(order), err)
	}
	var failed []error
	fail := func(i int, err error) {
		outcomes[i] = Outcome{Kind: Unsettled, ref: wanted[i].Ref}
		failed = append(failed, fmt.Errorf("claim key: item %d: %w", i, err))
	}
	decided := make([]*record, len(wanted)) // the row that decided for the first item of each key and its repeats so far
	for at, i := range order {
		if outcomes[i], err = claims[at].settle(ctx, records[at], started); err != nil {
			fail(int(i), err)
			continue
		}
		decided[i] = claims[at].decided
	}
	for i, w := range wanted {
		of := first[i]
		if of == int32(i) || outcomes[of].Kind == Unsettled {
			continue
		}
		if outcomes[i] = outcome(w.Ref, w.Content, decided[of]); outcomes[i].Kind != Absent {
			continue
		}
		// An expired claim that was a conflict for the first item, but is not for this one.
		again := s.claiming(Mint(), w.Ref, w.Content, lease)
		if outcomes[i], err = again.run(ctx); err != nil {
			fail(i, err)
			continue
		}
		decided[of] = again.decided
	}
	s.observeMany(ctx, outcomes)
	return outcomes, errors.Join(failed...)
}

func (s *Service) observeMany(ctx context.Context, outcomes []Outcome) {
	for _, o := range outcomes {
		if o.Kind != Unsettled {
			s.observe(ctx, Event{Op: OpClaim, Ref: o.ref, Kind: o.Kind, Reclaimed: o.Claim != nil && o.Claim.Reclaimed})
		}
	}
}

// settle returns the outcome of a claim whose first read was part of a batch.
func (c *claiming) settle(ctx context.Context, rec *record, started time.Time) (Outcome, error) {
	if rec != nil {
		if o, settled, err := c.judge(ctx, rec, started); err != nil || settled {
			return o, err
		}
	}
	return c.run(ctx)
}

// claimRows inserts the missing keys and returns the row of every key.
func (s *Service) claimRows(ctx context.Context, claims []*claiming) ([]*record, error) {
	n := len(claims)
	ids, organizations, tokens := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
	scopes, keys, hashes, retain := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
	for i, c := range claims {
		ids[i], organizations[i], tokens[i] = c.terms.ID, c.ref.Organization, c.terms.Token
		scopes[i], keys[i], hashes[i] = c.ref.Scope.name, c.ref.Key.text, c.terms.Hash.text
		retain[i] = c.terms.Retention.Microseconds()
	}
	records := make([]*record, n)
	err := s.resend(ctx, func() error {
		clear(records)
		return s.repo.send(ctx, func(b *pgx.Batch) {
			b.Queue(claimManySQL, ids, organizations, scopes, keys, hashes, tokens, retain, claims[0].terms.Lease)
			b.Queue(getManySQL, organizations, scopes, keys).Query(func(rows pgx.Rows) error {
				return scanMany(rows, records)
			})
		})
	})
	return records, err
}

func scanMany(rows pgx.Rows, records []*record) error {
	for rows.Next() {
		var isolation string
		var n int64
		rec, err := scanRecord(rows, &isolation, &n)
		if err != nil {
			return err
		}
		if isolation != readCommitted {
			return fmt.Errorf("%w (it is %s)", ErrIsolation, isolation)
		}
		records[n-1] = rec
	}
	return rows.Err()
}

// The subquery locks the rows in the order given. A plain UPDATE would lock them in the order of the plan.
const completeManySQL = `
	WITH held AS MATERIALIZED (
	  SELECT k.id, k.lease_token, u.response, u.resource_type, u.resource_id
	    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY
	         AS u(id, token, response, resource_type, resource_id, n)
	    JOIN agent.idempotency_keys AS k ON k.id = u.id AND k.lease_token = u.token AND k.status = 'processing'
	   ORDER BY u.n
	     FOR UPDATE OF k
	)
	UPDATE agent.idempotency_keys AS k
	   SET status = 'completed', response = held.response::json, resource_type = held.resource_type, resource_id = held.resource_id
	  FROM held
	 WHERE k.id = held.id AND k.lease_token = held.lease_token AND k.status = 'processing'`

const completedSQL = `
	SELECT u.n
	  FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS u(id, token, n)
	  JOIN agent.idempotency_keys AS k ON k.id = u.id AND k.lease_token = u.token AND k.status = 'completed'`

// completeMany completes claims. The answers are valid.
func (s *Service) completeMany(ctx context.Context, endings []Ending) (recorded []bool, err error) {
	if len(endings) == 0 {
		return nil, nil
	}
	order, first := distinct(len(endings), func(a, b int32) int { return endings[a].Claim.compare(endings[b].Claim) })
	n := len(order)
	ids, tokens := make([][16]byte, n), make([][16]byte, n)
	responses, types, resources := make([]*string, n), make([]*string, n), make([]*string, n)
	for at, i := range order {
		e := &endings[i]
		ids[at], tokens[at] = e.Claim.ID, e.Claim.Token
		responses[at], types[at], resources[at] = e.Answer.columns()
	}
	recorded = make([]bool, len(endings))
	err = s.resend(ctx, func() error {
		clear(recorded)
		return s.repo.send(ctx, func(b *pgx.Batch) {
			b.Queue(completeManySQL, ids, tokens, responses, types, resources)
			b.Queue(completedSQL, ids, tokens).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					var at int64
					if err := rows.Scan(&at); err != nil {
						return err
					}
					recorded[order[at-1]] = true
				}
				return rows.Err()
			})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("complete %d claims: %w", n, err)
	}
	for i := range endings {
		recorded[i] = recorded[first[i]]
	}
	return recorded, nil
}

// compare orders claims by the bytes of their keys, and claims on the same key by their identity.
func (c *Claim) compare(o *Claim) int {
	if d := compareRefs(&c.Ref, &o.Ref); d != 0 {
		return d
	}
	if d := compareUUIDs(c.ID, o.ID); d != 0 {
		return d
	}
	return compareUUIDs(c.Token, o.Token)
}

func compareUUIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
