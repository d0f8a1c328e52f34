package idempotency_test

import (
	"context"
	"errors"
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
