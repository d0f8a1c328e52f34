package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// A migration may lock the whole table.
func TestLockWaitOnTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	single := open(t, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	keys := idempotency.MustService(single, idempotency.Options{LockWait: 50 * time.Millisecond})
	// The statements are prepared before the table is locked.
	if _, err := keys.Claim(t.Context(), b.ref("tool.email.send", "before"), content("1"), lease); err != nil {
		t.Fatal(err)
	}
	tx := b.begin()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE agent.idempotency_keys IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := keys.Claim(ctx, b.ref("tool.email.send", "k"), content("1"), lease); !errors.Is(err, idempotency.ErrLockTimeout) {
		t.Errorf("%v, want ErrLockTimeout", err)
	}
}

func TestEndingsAreFinal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	c := b.own(r, content("1"))
	b.complete(c, response(`"first"`))
	before := b.row(r)
	if !b.complete(c, response(`"second"`)) {
		t.Error("a repeated completion is not recognised")
	}
	if b.release(c) || b.row(r) != before {
		t.Error("a completed claim changed")
	}
	released := b.ref("tool.email.send", "released")
	c = b.own(released, content("1"))
	if !b.release(c) || b.row(released) != "" {
		t.Error("not released")
	}
	if b.release(c) || b.complete(c, response(`1`)) || b.row(released) != "" {
		t.Error("a released claim was ended again")
	}
	b.own(released, content("2")) // free for any content
}

func TestCompletionKeepsOtherColumns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	const kept = `SELECT row(id, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)::text FROM agent.idempotency_keys`
	c := b.own(r, content("1"))
	before := one[string](b, kept)
	b.complete(c, response(`1`))
	if after := one[string](b, kept); after != before {
		t.Errorf("a completion changed\n%s\n%s", before, after)
	}
}

func TestLeaseRaisesRetention(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.claimFor(b.ref("webhook.nylas", "k"), content("1"), 48*time.Hour)
	if !one[bool](b, `SELECT retain_until = lease_expires_at FROM agent.idempotency_keys`) {
		t.Error("the key is forgotten while it is held")
	}
	_, err := b.pool.Exec(t.Context(), `UPDATE agent.idempotency_keys SET retain_until = lease_expires_at - interval '1 second'`)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName != "idempotency_keys_clocks" {
		t.Errorf("a hand-written violation: %v", err)
	}
}

func TestLeaseBounds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, d := range []time.Duration{-1, 0, time.Microsecond, idempotency.MaxLease + 1} {
		if _, err := b.keys.Claim(t.Context(), b.ref("tool.x", "k"), content("1"), d); !errors.Is(err, idempotency.ErrLease) {
			t.Errorf("lease %s: %v", d, err)
		}
	}
	if b.rows() != 0 {
		t.Error("a row without a lease")
	}
}

func TestTakeOverForgottenRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("webhook.nylas", "k")
	old := b.own(r, content("1"))
	b.complete(old, response(`"old"`))
	b.pass(24 * time.Hour)
	b.want(b.read(r, content("2")), idempotency.Absent)
	next := b.own(r, content("2"))
	if next.Reclaimed || next.ID == old.ID || next.Token == old.Token {
		t.Errorf("%+v, want a new claim", next)
	}
	before := b.row(r)
	if b.complete(old, response(`1`)) || b.release(old) || b.row(r) != before {
		t.Error("the forgotten claim ended the new one")
	}
	if n := one[int](b, `SELECT count(*) FROM agent.idempotency_keys WHERE response IS NULL AND status = 'processing' AND retain_until > now() + interval '23 hours'`); n != 1 {
		t.Error("the old answer or retention is still there")
	}
}

func TestWhenTokensChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	token := func() string { return one[string](b, `SELECT lease_token::text FROM agent.idempotency_keys`) }
	seen := map[string]bool{}
	fresh := func() {
		t.Helper()
		if now := token(); seen[now] {
			t.Errorf("token %s was there before", now)
		} else {
			seen[now] = true
		}
	}
	b.own(r, content("1"))
	fresh()
	b.pass(lease)
	c := b.own(r, content("1"))
	fresh()
	b.claim(r, content("1"))
	b.claim(r, content("2"))
	b.complete(c, response(`1`))
	if token() != c.Token.String() {
		t.Error("the token changed without a claim")
	}
	b.pass(31 * 24 * time.Hour)
	b.own(r, content("1"))
	fresh()
}

func TestKeysAreSeparate(t *testing.T) {
	t.Parallel()
	b, other := setup(t), (*bundle)(nil)
	copied := *b
	other = &copied
	other.org[0] ^= 0xff
	mine, theirs, scope := b.ref("webhook.nylas", "evt_123"), other.ref("webhook.nylas", "evt_123"), b.ref("webhook.slack", "evt_123")
	for i, r := range []idempotency.Ref{mine, theirs, scope} {
		b.complete(b.own(r, content("1")), response(strconv.Itoa(i)))
	}
	for i, r := range []idempotency.Ref{mine, theirs, scope} {
		if o := b.read(r, content("1")); string(o.Answer.Response) != strconv.Itoa(i) {
			t.Errorf("key %d answers %s", i, o.Answer.Response)
		}
	}
	// The id of another claim does not help without its token.
	held := b.own(b.ref("tool.x", "k"), content("1"))
	forged := *held
	forged.Token = idempotency.Mint().Token
	if b.complete(&forged, response(`1`)) || b.release(&forged) {
		t.Error("ended under a foreign token")
	}
}

func TestRowsMethodCompares(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := []byte(`{"amount": 1}`)
	// The row was hashed by raw bytes; now the same body is hashed canonically.
	raw, _ := idempotency.Content(body).Under("r1")
	r := b.ref("tool.pay", "k")
	b.complete(b.own(r, raw), response(`1`))
	b.want(b.claim(r, idempotency.Content(body)), idempotency.Completed)
	b.want(b.read(r, idempotency.Content(body)), idempotency.Completed)
	// Equal canonical forms are weaker than equal bytes, and prove nothing here.
	b.want(b.claim(r, idempotency.Content([]byte(`{"amount":1}`))), idempotency.Conflict)
	b.want(b.claim(r, idempotency.Content([]byte(`{"amount": 2}`))), idempotency.Conflict)
	b.want(b.claim(r, idempotency.Content(body).Current()), idempotency.Conflict) // a bare hash knows one method

	// A method that no longer exists: every content is different.
	old, err := idempotency.ParseHash(fmt.Sprintf("z9:%064d", 1))
	if err != nil {
		t.Fatal(err)
	}
	r = b.ref("tool.pay", "old")
	b.own(r, old)
	b.want(b.claim(r, idempotency.Content(body)), idempotency.Conflict)
	if o := b.claim(r, old); o.Kind != idempotency.Processing {
		t.Errorf("the same hash is %s", o.Kind)
	}
}

func TestLeftByDatabaseClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	before := time.Now()
	c := b.own(r, content("1"))
	after := time.Now()
	if c.Deadline.Before(before.Add(lease-2*time.Second)) || c.Deadline.After(after.Add(lease)) {
		t.Errorf("deadline %s after the claim", c.Deadline.Sub(after))
	}
	within, cancel := c.Within(t.Context())
	defer cancel()
	if d, ok := within.Deadline(); !ok || c.Deadline.Sub(d) < 2*time.Second || c.Deadline.Sub(d) > 5*time.Second {
		t.Errorf("the effect's context ends %s before the lease", c.Deadline.Sub(d))
	}
	o := b.claim(r, content("1"))
	if o.RetryAfter <= lease-5*time.Second || o.RetryAfter > lease {
		t.Errorf("%s left of %s", o.RetryAfter, lease)
	}
}

// A claim that is repeated under its Identity after another worker has had the key is a reclaim, although the row is
// its own.
func TestRepeatedReclaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, who := b.ref("tool.email.send", "k"), idempotency.Mint()
	for attempt, reclaimed := range []bool{false, false, true, true} {
		if attempt == 2 {
			b.pass(lease)
			b.own(r, content("1"))
			b.pass(lease)
		}
		o, err := b.keys.ClaimAs(t.Context(), who, r, content("1"), lease)
		if err != nil || o.Kind != idempotency.Claimed || o.Claim.Reclaimed != reclaimed {
			t.Errorf("attempt %d: %+v, %v, want reclaimed %v", attempt, o, err, reclaimed)
		}
	}
}
