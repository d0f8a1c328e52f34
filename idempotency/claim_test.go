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

func TestClaimSeesRowItWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, step := range map[string]struct {
		finish func(*idempotency.Service, *idempotency.Claim)
		want   idempotency.Kind
	}{
		"processing": {func(*idempotency.Service, *idempotency.Claim) {}, idempotency.Processing},
		"completed": {func(in *idempotency.Service, c *idempotency.Claim) {
			if _, err := in.Complete(t.Context(), c, response(`1`)); err != nil {
				t.Fatal(err)
			}
		}, idempotency.Completed},
	} {
		r := b.ref("tool.email.send", name)
		tx := b.begin()
		in := b.keys.In(tx)
		o, err := in.Claim(t.Context(), r, content("1"), lease)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan idempotency.Outcome, 1)
		go func() {
			o, err := b.patient().Claim(t.Context(), r, content("1"), lease)
			if err != nil {
				t.Error(err)
			}
			waited <- o
		}()
		b.blocked(1)
		step.finish(in, o.Claim)
		b.commit(tx)
		b.want(<-waited, step.want)
	}
}

func TestNoEmptyAnswerUnderContention(t *testing.T) {
	t.Parallel()
	b := setup(t)
	patient := b.patient() // 20 claimers share two cores
	for round := range 40 {
		r := b.ref("tool.email.send", strconv.Itoa(round))
		outcomes := together(20, func(i int) idempotency.Outcome {
			o, err := patient.Claim(t.Context(), r, content(strconv.Itoa(i%2)), lease)
			if err != nil {
				t.Error(err)
			}
			if o.Kind == idempotency.Claimed {
				b.complete(o.Claim, response(`1`))
			}
			return o
		})
		kinds := count(outcomes)
		if kinds[idempotency.Claimed] != 1 || kinds[idempotency.Conflict] != 10 ||
			kinds[idempotency.Processing]+kinds[idempotency.Completed] != 9 {
			t.Fatalf("outcomes %v, want one owner, ten conflicts and nine duplicates", kinds)
		}
	}
}

func TestFullLeaseAfterRollback(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	tx := b.begin()
	if _, err := b.keys.In(tx).Claim(t.Context(), r, content("1"), lease); err != nil {
		t.Fatal(err)
	}
	const short = 10 * time.Millisecond
	waited := together(2, func(i int) idempotency.Outcome {
		if i == 1 {
			b.blocked(1)
			for started := time.Now(); time.Since(started) < 2*short; {
				b.blocked(1) // the waiter's lease was computed before it began to wait
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			return idempotency.Outcome{}
		}
		o, err := b.patient().Claim(t.Context(), r, content("1"), short)
		if err != nil {
			t.Error(err)
		}
		return o
	})
	b.want(waited[0], idempotency.Claimed)
	span := one[time.Duration](b, `SELECT lease_expires_at - claimed_at FROM agent.idempotency_keys`)
	if span <= 2*short {
		t.Errorf("the lease ends %s after the claim was sent, want %s after the wait", span, short)
	}
}

func TestLockWaitIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	tx := b.begin()
	if _, err := b.keys.In(tx).Claim(t.Context(), r, content("1"), lease); err != nil {
		t.Fatal(err)
	}
	single := open(t, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	keys := idempotency.MustService(single, idempotency.Options{LockWait: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o, err := keys.Claim(ctx, r, content("1"), lease)
	var pg *pgconn.PgError
	if !errors.Is(err, idempotency.ErrLockTimeout) || errors.Is(err, idempotency.ErrInFlight) || !errors.As(err, &pg) || o.Kind != "" {
		t.Errorf("%+v, %v, want ErrLockTimeout with the server's error", o, err)
	}
	var setting string
	if err := single.QueryRow(t.Context(), `SHOW lock_timeout`).Scan(&setting); err != nil || setting != "0" {
		t.Errorf("lock_timeout is %q afterwards, %v", setting, err)
	}
	// A read waits for no lock, and does not see an uncommitted claim.
	b.want(b.read(r, content("1")), idempotency.Absent)
}

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

func TestReclaimRacesCompletion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 150 {
		r := b.ref("tool.email.send", strconv.Itoa(round))
		c := b.own(r, content("1"))
		b.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = claimed_at WHERE key = $1`, r.Key.String())
		var recorded bool
		outcomes := together(2, func(i int) idempotency.Outcome {
			if i == 0 {
				recorded = b.complete(c, response(`1`))
				return idempotency.Outcome{}
			}
			return b.claim(r, content("1"))
		})
		switch kind := outcomes[1].Kind; {
		case recorded && kind == idempotency.Completed:
		case !recorded && kind == idempotency.Claimed && outcomes[1].Claim.Reclaimed:
		default:
			t.Fatalf("round %d: recorded %v and %s", round, recorded, kind)
		}
	}
}

func TestReleaseRacesClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 150 {
		r := b.ref("tool.email.send", strconv.Itoa(round))
		c := b.own(r, content("1"))
		outcomes := together(2, func(i int) idempotency.Outcome {
			if i == 0 {
				if !b.release(c) {
					t.Error("the owner could not release")
				}
				return idempotency.Outcome{}
			}
			return b.claim(r, content("1"))
		})
		want := 0
		switch outcomes[1].Kind {
		case idempotency.Claimed:
			want = 1
		case idempotency.Processing:
		default:
			t.Fatalf("round %d: %s", round, outcomes[1].Kind)
		}
		if n := one[int](b, `SELECT count(*) FROM agent.idempotency_keys WHERE key = $1`, r.Key.String()); n != want {
			t.Fatalf("round %d: %d rows after %s", round, n, outcomes[1].Kind)
		}
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

func TestOneOf20TakesOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 10 {
		r := b.ref("webhook.nylas", strconv.Itoa(round))
		c := b.own(r, content("1"))
		if round%2 == 0 {
			b.complete(c, response(`1`))
		}
		b.pass(24 * time.Hour)
		outcomes := together(20, func(int) idempotency.Outcome { return b.claim(r, content("2")) })
		b.wantKinds(outcomes, map[idempotency.Kind]int{idempotency.Claimed: 1, idempotency.Processing: 19})
	}
}

func TestContendedIsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Every insert finds a row that is gone when it is read.
	b.exec(`CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
	b.exec(`CREATE TRIGGER vanish BEFORE INSERT ON agent.idempotency_keys FOR EACH ROW EXECUTE FUNCTION vanish()`)
	o, err := b.keys.Claim(t.Context(), b.ref("tool.email.send", "k"), content("1"), lease)
	if !errors.Is(err, idempotency.ErrContended) || !errors.Is(err, idempotency.ErrInFlight) || o.Claim != nil {
		t.Errorf("%+v, %v", o, err)
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
