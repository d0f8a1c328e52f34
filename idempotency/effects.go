package idempotency

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Item is one key of a batch. The caller generates ID and Token once and uses them for every repeat of the batch, so
// that a repeat after an uncertain COMMIT recognizes its own rows. No two items of a batch share an ID, not even
// repeats of one key: the effect is made by ID.
type Item struct {
	Ref
	Hash      Hash
	ID, Token uuid.UUID
	Resource  ResourceRef // completes the claim
}

// Effects claims and completes many keys in one ordered statement, together with the INSERT that is their effect,
// inside a batch that the caller sends. An Effects is for one sending; to repeat it, make a new one of the same items.
// Use at most one Effects per transaction: two together are not sorted and can deadlock.
type Effects struct {
	items   []Item
	lease   time.Duration
	order   []int32    // the first item of each distinct key, sorted by the key's bytes
	first   []int32    // per item: the first item with the same key
	allWon  bool       // by this sending
	found   []standing // by position in order, unless allWon
	columns effectColumns
}

// standing is the state of a key as the batch read it.
type standing struct {
	seen                                    bool
	mine, completed, leasePassed, forgotten bool
	hash                                    string
}

// effectColumns holds the items of order as columns of one statement.
type effectColumns struct {
	ids, organizations, tokens     [][16]byte
	scopes, keys, hashes, typ, res []string
	retain                         []int64 // microseconds
}

// NewEffects prepares the items. They may be in any order and repeat keys: of a repeated key, only the first item is
// sent. A bad item is an error that names its index, before anything is sent, because one bad item would abort the
// whole batch.
func (s *Service) NewEffects(items []Item, lease time.Duration) (*Effects, error) {
	if err := validateLease(lease); err != nil {
		return nil, err
	}
	for i := range items {
		if err := items[i].validate(); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	e := &Effects{items: items, lease: lease}
	e.order, e.first = distinct(len(items), func(a, b int32) int { return compareRefs(&items[a].Ref, &items[b].Ref) })
	e.fill()
	return e, nil
}

func (it *Item) validate() error {
	if err := it.Ref.validate(); err != nil {
		return err
	}
	if it.Hash.text == "" {
		return ErrHash
	}
	if it.ID == uuid.Nil || it.Token == uuid.Nil {
		return ErrIdentity
	}
	if it.Resource.Type == "" || it.Resource.ID == "" {
		return ErrEmptyAnswer
	}
	return nil
}

// distinct sorts n items and finds repeats. order holds the first item of each key; first holds, per item, the item of
// order that it repeats, or itself. Two writers with the same sort order cannot deadlock.
func distinct(n int, compare func(a, b int32) int) (order, first []int32) {
	sorted := make([]int32, 2*n)
	sorted, first = sorted[:n:n], sorted[n:]
	for i := range sorted {
		sorted[i] = int32(i)
	}
	slices.SortFunc(sorted, func(a, b int32) int {
		if c := compare(a, b); c != 0 {
			return c
		}
		return int(a - b)
	})
	order = sorted[:0]
	for _, i := range sorted {
		if len(order) == 0 || compare(order[len(order)-1], i) != 0 {
			order = append(order, i)
		}
		first[i] = order[len(order)-1]
	}
	return order, first
}

// compareRefs orders keys by the bytes of organization, scope and key, like the database.
func compareRefs(a, b *Ref) int {
	if c := bytes.Compare(a.Organization[:], b.Organization[:]); c != 0 {
		return c
	}
	if c := strings.Compare(a.Scope.name, b.Scope.name); c != 0 {
		return c
	}
	return strings.Compare(a.Key.text, b.Key.text)
}

func (e *Effects) fill() {
	n := len(e.order)
	uuids, texts := make([][16]byte, 3*n), make([]string, 5*n)
	c := &e.columns
	c.ids, c.organizations, c.tokens = uuids[:n:n], uuids[n:2*n:2*n], uuids[2*n:]
	c.scopes, c.keys, c.hashes, c.typ, c.res = texts[:n:n], texts[n:2*n:2*n], texts[2*n:3*n:3*n], texts[3*n:4*n:4*n], texts[4*n:]
	c.retain = make([]int64, n)
	for at, i := range e.order {
		it := &e.items[i]
		c.ids[at], c.organizations[at], c.tokens[at] = it.ID, it.Organization, it.Token
		c.scopes[at], c.keys[at], c.hashes[at] = it.Scope.name, it.Key.text, it.Hash.text
		c.typ[at], c.res[at] = storable(it.Resource.Type), storable(it.Resource.ID)
		c.retain[at] = it.Scope.retain(e.lease).Microseconds()
	}
}

// EffectParam is the number of the effect's first parameter.
const EffectParam = 11

// The first statement stores the number of keys that it did not win in a setting of the transaction, for the second. It
// also keeps the second from reading the whole table, as lendSQL does.
const (
	beginEffectsSQL = `
	WITH claimed AS (
	  INSERT INTO agent.idempotency_keys
	         (id, organization_id, scope, key, request_hash, lease_token, status, resource_type, resource_id,
	          claimed_at, lease_expires_at, retain_until)
	  SELECT u.id, u.organization, u.scope, u.key, u.hash, u.token, 'completed', u.resource_type, u.resource_id,
	         t.now, t.now + $10::interval, t.now + u.retain * interval '1 microsecond'
	    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[], $9::bigint[])
	         AS u(id, organization, scope, key, hash, token, resource_type, resource_id, retain),
	         clock_timestamp() AS t(now)
	   WHERE current_setting('transaction_isolation') = 'read committed'
	   ORDER BY u.organization, u.scope COLLATE "C", u.key COLLATE "C"
	      ON CONFLICT (organization_id, scope, key) DO NOTHING
	  RETURNING id
	), effect AS (
	`
	endEffectsSQL = `
	)
	SELECT set_config('idempotency.not_won', (cardinality($1::uuid[]) - (SELECT count(*) FROM claimed))::text, true)::bigint,
	       set_config('idempotency.enable_seqscan', current_setting('enable_seqscan'), true),
	       set_config('enable_seqscan', 'off', true), ` + DurableCommit
	returnScansSQL = `SELECT set_config('enable_seqscan', current_setting('idempotency.enable_seqscan'), true)`
)

// Keys need a look only if at least one was not won. The LIMIT makes every item an index look-up, whatever the planner
// estimates for the arrays. A missing key has a row too, so that the isolation level is always returned. The stored
// answers are not read.
const standingSQL = `
	SELECT current_setting('transaction_isolation') = 'read committed', u.n, k.lease_token IS NOT NULL,
	       coalesce(k.lease_token = u.token, false), coalesce(k.request_hash, ''), coalesce(k.status = 'completed', false),
	       coalesce(k.lease_expires_at <= clock_timestamp(), false), coalesce(k.retain_until <= clock_timestamp(), false)
	  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) WITH ORDINALITY AS u(organization, scope, key, token, n)
	  LEFT JOIN LATERAL (SELECT lease_token, request_hash, status, lease_expires_at, retain_until
	                       FROM agent.idempotency_keys
	                      WHERE organization_id = u.organization AND scope = u.scope AND key = u.key LIMIT 1) AS k ON true
	 WHERE current_setting('idempotency.not_won')::bigint > 0`

// Queue adds statements to the batch. The first claims and completes the keys and makes their effect. The effect is an
// INSERT … SELECT without a semicolon that joins `claimed`, whose one column is the item's ID; its own parameters begin
// at $EffectParam. A key that is not won, or was won by an earlier sending, has no row in `claimed`. The second
// statement reads the state of every key, unless all were won. It is separate because the first cannot see a row that
// it has waited for. Transaction control and timeouts are up to the caller. If the error wraps ErrEffect, nothing was
// added.
func (e *Effects) Queue(b *pgx.Batch, effect string, args ...any) error {
	if !joinsClaimed.MatchString(effect) || strings.Contains(effect, ";") {
		return ErrEffect
	}
	c := &e.columns
	all := make([]any, 0, EffectParam-1+len(args))
	all = append(all, c.ids, c.organizations, c.scopes, c.keys, c.hashes, c.tokens, c.typ, c.res, c.retain, e.lease)
	b.Queue(beginEffectsSQL+effect+endEffectsSQL, append(all, args...)...).QueryRow(func(row pgx.Row) error {
		var notWon int64
		if err := row.Scan(&notWon, nil, nil, nil, nil, nil); err != nil {
			return fmt.Errorf("claim %d keys: %w", len(e.order), err)
		}
		e.allWon = notWon == 0
		return nil
	})
	b.Queue(standingSQL, c.organizations, c.scopes, c.keys, c.tokens).Query(e.read)
	b.Queue(returnScansSQL)
	return nil
}

// ErrEffect refuses a statement that would also make its effect for keys that were not won.
var ErrEffect = errors.New("idempotency: the effect must be one INSERT … SELECT that joins claimed, without a semicolon")

var joinsClaimed = regexp.MustCompile(`\bclaimed\b`)

// read reads the result of standingSQL. A missing key vanished in between.
func (e *Effects) read(rows pgx.Rows) error {
	if e.allWon {
		rows.Close()
		return rows.Err()
	}
	e.found = make([]standing, len(e.order))
	var (
		committedReads bool
		n              int64
		hash           pgtype.DriverBytes
		row            standing
	)
	for rows.Next() {
		if err := rows.Scan(&committedReads, &n, &row.seen, &row.mine, &hash, &row.completed, &row.leasePassed, &row.forgotten); err != nil {
			return fmt.Errorf("read the state of a key: %w", err)
		}
		if !committedReads {
			return ErrIsolation
		}
		at := n - 1
		if row.hash = e.columns.hashes[at]; string(hash) != row.hash {
			row.hash = string(hash)
		}
		e.found[at] = row
	}
	return rows.Err()
}

// Verdicts returns the state of every item, in the order given. Call it after the batch was sent without an error and
// its transaction was committed. Claimed: the caller owns the key, freshly won or recognized by its token. Completed,
// Processing, Conflict: as for Claim. Unsettled: the lease passed, the row is past its retention or vanished, or its
// hash is of another method; claim that item singly. A repeat inside the batch is judged against the resulting row:
// Completed or Conflict, never Claimed.
func (e *Effects) Verdicts() []Verdict {
	verdicts := make([]Verdict, len(e.items))
	at := make([]int32, len(e.items)) // the position in order of the first item of each key
	for n, i := range e.order {
		at[i] = int32(n)
	}
	for i := range verdicts {
		row := e.standing(at[e.first[i]])
		if row.mine && e.first[i] == int32(i) {
			verdicts[i] = Claimed
			continue
		}
		verdicts[i] = row.judge(e.items[i].Hash)
	}
	return verdicts
}

// standing returns the state of the key of an item of order.
func (e *Effects) standing(at int32) standing {
	switch {
	case e.allWon:
		return standing{seen: true, mine: true, completed: true, hash: e.columns.hashes[at]}
	case e.found != nil:
		return e.found[at]
	default: // it was not sent
		return standing{}
	}
}

// judge returns the verdict for another claim on a row's key, as far as a batch can decide.
func (s *standing) judge(h Hash) Kind {
	switch {
	case !s.seen || s.forgotten:
		return Unsettled
	case s.hash != h.text:
		if method, _, _ := strings.Cut(s.hash, ":"); method != h.Method() {
			return Unsettled
		}
		return Conflict
	case s.completed:
		return Completed
	case s.leasePassed:
		return Unsettled
	default:
		return Processing
	}
}
