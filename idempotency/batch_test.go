package idempotency_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

func (b *bundle) claimMany(wanted ...idempotency.Wanted) []idempotency.Outcome {
	b.Helper()
	outcomes, err := b.keys.ClaimMany(b.Context(), wanted, lease)
	if err != nil {
		b.Fatal(err)
	}
	return outcomes
}

func kindsOf(outcomes []idempotency.Outcome) (kinds []idempotency.Kind) {
	for _, o := range outcomes {
		kinds = append(kinds, o.Kind)
	}
	return kinds
}

// states puts keys into every state that a claim can find, and returns claims for them: one key twice, another twice
// with different content.
func (b *bundle) states() (wanted []idempotency.Wanted) {
	b.Helper()
	want := func(key, text string) {
		wanted = append(wanted, idempotency.Wanted{Ref: b.ref("webhook.nylas", key), Content: content(text)})
	}
	for _, key := range []string{"forgotten completed", "forgotten processing"} {
		c := b.own(b.ref("webhook.nylas", key), content("1"))
		if key == "forgotten completed" {
			b.complete(c, response(`"forgotten"`))
		}
	}
	b.pass(24 * time.Hour)
	b.own(b.ref("webhook.nylas", "dead"), content("1"))
	b.own(b.ref("webhook.nylas", "dead, other content"), content("1"))
	b.pass(lease)
	b.own(b.ref("webhook.nylas", "live"), content("1"))
	raw, _ := content("1").Under("r1")
	b.complete(b.own(b.ref("webhook.nylas", "other method"), raw), response(`"raw"`))
	b.complete(b.own(b.ref("webhook.nylas", "completed"), content("1")), response(`"known"`))
	for _, key := range []string{"new", "completed", "live", "dead", "other method", "forgotten completed", "forgotten processing", "zz"} {
		want(key, "1")
	}
	want("new", "1")
	want("new", "2")
	want("dead, other content", "2")
	want("completed", "2")
	want("dead", "1")
	want("forgotten completed", "2")
	want("other method", "2")
	return wanted
}

func TestClaimManyLikeSingleClaims(t *testing.T) {
	t.Parallel()
	for range 5 {
		single, many := setup(t), setup(t)
		wanted := single.states()
		same := many.states()
		rand.Shuffle(len(wanted), func(i, k int) {
			wanted[i], wanted[k] = wanted[k], wanted[i]
			same[i], same[k] = same[k], same[i]
		})
		var want []idempotency.Outcome
		for _, w := range wanted {
			want = append(want, single.claim(w.Ref, w.Content))
		}
		got := many.claimMany(same...)
		for i := range got {
			w, g := want[i], got[i]
			if w.Kind != g.Kind || string(w.Answer.Response) != string(g.Answer.Response) ||
				(w.Claim != nil && w.Claim.Reclaimed != g.Claim.Reclaimed) || (g.RetryAfter > 0) != (w.RetryAfter > 0) {
				t.Errorf("%s: single %+v, batch %+v", wanted[i].Key, w, g)
			}
			if g.Claim != nil && g.Claim.Ref != same[i].Ref {
				t.Errorf("%s: the claim is of %s", same[i].Key, g.Claim.Ref.Key)
			}
		}
	}
}

func TestBatchWithKnownKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := make(map[string]int)
	// handle is a caller that makes an effect for each key that it won, and records all of them.
	handle := func(wanted []idempotency.Wanted) map[idempotency.Kind]int {
		t.Helper()
		outcomes := b.claimMany(wanted...)
		var endings []idempotency.Ending
		for _, o := range outcomes {
			if o.Claim != nil {
				made[o.Claim.Ref.Key.String()]++
				endings = append(endings, idempotency.Ending{Claim: o.Claim, Answer: response(`1`)})
			}
		}
		if _, err := b.keys.CompleteMany(t.Context(), endings); err != nil {
			t.Fatal(err)
		}
		return count(outcomes)
	}
	var five []idempotency.Wanted
	for i := range 5 {
		five = append(five, idempotency.Wanted{Ref: b.ref("webhook.sendgrid", strconv.Itoa(i)), Content: content("1")})
	}
	for _, step := range []struct {
		events []idempotency.Wanted
		kinds  map[idempotency.Kind]int
		made   map[string]int
	}{
		{five[:3], map[idempotency.Kind]int{idempotency.Claimed: 3}, map[string]int{"0": 1, "1": 1, "2": 1}},
		{five, map[idempotency.Kind]int{idempotency.Completed: 3, idempotency.Claimed: 2}, map[string]int{"0": 1, "1": 1, "2": 1, "3": 1, "4": 1}},
		{five, map[idempotency.Kind]int{idempotency.Completed: 5}, map[string]int{"0": 1, "1": 1, "2": 1, "3": 1, "4": 1}},
	} {
		if diff := cmp.Diff(step.kinds, handle(step.events)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(step.made, made); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
	}
}

func TestClaimManyBadKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := idempotency.Wanted{Ref: b.ref("tool.x", "k"), Content: content("1")}
	for want, bad := range map[error]idempotency.Wanted{
		idempotency.ErrKey:          {Ref: idempotency.Ref{Organization: b.org, Scope: good.Scope}, Content: content("1")},
		idempotency.ErrScope:        {Ref: idempotency.Ref{Organization: b.org, Key: good.Key}, Content: content("1")},
		idempotency.ErrOrganization: {Ref: idempotency.Ref{Organization: uuid.Nil, Scope: good.Scope, Key: good.Key}, Content: content("1")},
		idempotency.ErrHash:         {Ref: good.Ref},
	} {
		_, err := b.keys.ClaimMany(t.Context(), []idempotency.Wanted{good, bad}, lease)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "item 1: ") {
			t.Errorf("got %v, want %v of item 1", err, want)
		}
		if _, err := b.keys.Claim(t.Context(), bad.Ref, bad.Content, lease); !errors.Is(err, want) {
			t.Errorf("single: got %v, want %v", err, want)
		}
	}
	if b.rows() != 0 {
		t.Error("something was claimed")
	}
}

func TestClaimManyHalfDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := b.ref("tool.x", "dead")
	b.own(dead, content("1"))
	b.pass(lease)
	tx := b.begin() // a transaction holds the expired claim
	if _, err := tx.Exec(t.Context(), `SELECT FROM agent.idempotency_keys FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	fresh := b.ref("tool.x", "fresh")
	outcomes, err := b.keys.ClaimMany(t.Context(), []idempotency.Wanted{
		{Ref: dead, Content: content("1")}, {Ref: fresh, Content: content("1")}, {Ref: dead, Content: content("1")},
	}, lease)
	if !errors.Is(err, idempotency.ErrLockTimeout) || !strings.Contains(err.Error(), "item 0: ") {
		t.Errorf("got %v, want a lock time-out of item 0", err)
	}
	if diff := cmp.Diff([]idempotency.Kind{idempotency.Unsettled, idempotency.Claimed, idempotency.Unsettled}, kindsOf(outcomes)); diff != "" {
		t.Fatal(diff)
	}
	if !b.complete(outcomes[1].Claim, response(`1`)) {
		t.Error("the claim that was made does not hold")
	}
}

func TestCompleteManyLikeSingle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := func(i int) idempotency.Ref { return b.ref("tool.x", strconv.Itoa(9-i)) }
	var claims []*idempotency.Claim
	for i := range 6 {
		claims = append(claims, b.own(ref(i), content("1")))
	}
	b.complete(claims[1], response(`"before"`))
	b.release(claims[2])
	b.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = claimed_at WHERE key = '6'`)
	next := b.own(ref(3), content("1"))
	endings := []idempotency.Ending{
		{Claim: claims[0], Answer: response(`0`)},
		{Claim: claims[1], Answer: response(`1`)},
		{Claim: claims[2], Answer: response(`2`)},
		{Claim: claims[3], Answer: response(`3`)},
		{Claim: next, Answer: response(`"next"`)},
		{Claim: claims[4], Answer: idempotency.Answer{Resource: idempotency.ResourceRef{Type: "message", ID: "m"}}},
		{Claim: claims[4], Answer: response(`"again"`)},
		{Claim: claims[5], Answer: response(`no json`)},
	}
	for range 2 { // a repeat changes nothing
		recorded, err := b.keys.CompleteMany(t.Context(), endings)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]bool{true, true, false, false, true, true, true, true}, recorded); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
	}
	for i, want := range map[int]string{0: `0`, 1: `"before"`, 3: `"next"`, 4: ``} {
		if o := b.read(ref(i), content("1")); string(o.Answer.Response) != want {
			t.Errorf("key %d answers %s, want %s", i, o.Answer.Response, want)
		}
	}
	if _, cut := b.read(ref(5), content("1")).Answer.Unkept(); !cut {
		t.Error("invalid JSON was stored")
	}
	if recorded, err := b.keys.CompleteMany(t.Context(), nil); err != nil || len(recorded) != 0 {
		t.Errorf("nothing: %v, %v", recorded, err)
	}
	bad := []idempotency.Ending{{Claim: claims[0], Answer: response(`0`)}, {Claim: claims[1]}}
	if _, err := b.keys.CompleteMany(t.Context(), bad); !errors.Is(err, idempotency.ErrEmptyAnswer) || !strings.Contains(err.Error(), "item 1: ") {
		t.Errorf("an empty answer: %v", err)
	}
}

// overlapping runs 8 writers, each with batches of 60 of 100 keys in random order. Waits for locks are not cut short,
// so that the server detects a deadlock.
func overlapping(b *bundle, rounds int, batch func(writer int, keys []int) error) {
	b.Helper()
	errs := together(8, func(writer int) error {
		for range rounds {
			if err := batch(writer, rand.Perm(100)[:60]); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

func TestNoDeadlockOfEffects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	b.keys = b.patient()
	overlapping(b, 12, func(writer int, keys []int) error {
		var items []idempotency.Item
		for _, k := range keys {
			items = append(items, b.item(b.ref("webhook.nylas", strconv.Itoa(k)), "1"))
		}
		_, err := b.settle(b.Context(), items)
		if writer == 0 && err == nil { // otherwise every key is soon known and no writer writes
			b.exec(`DELETE FROM agent.idempotency_keys WHERE ctid IN (SELECT ctid FROM agent.idempotency_keys FOR UPDATE SKIP LOCKED)`)
		}
		return err
	})
}

func TestNoDeadlockOfClaimMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keys = b.patient()
	overlapping(b, 12, func(writer int, keys []int) error {
		var wanted []idempotency.Wanted
		for _, k := range keys {
			wanted = append(wanted, idempotency.Wanted{Ref: b.ref("tool.x", strconv.Itoa(k)), Content: content("1")})
		}
		_, err := b.keys.ClaimMany(b.Context(), wanted, lease)
		if writer == 0 && err == nil {
			b.exec(`DELETE FROM agent.idempotency_keys WHERE ctid IN (SELECT ctid FROM agent.idempotency_keys FOR UPDATE SKIP LOCKED)`)
		}
		return err
	})
}

func TestNoDeadlockOfCompleteMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keys = b.patient()
	for round := range 12 {
		var wanted []idempotency.Wanted
		for k := range 100 {
			wanted = append(wanted, idempotency.Wanted{Ref: b.ref("tool.x", fmt.Sprint(round, " ", k)), Content: content("1")})
		}
		outcomes := b.claimMany(wanted...)
		errs := together(8, func(int) error {
			var endings []idempotency.Ending
			for _, i := range rand.Perm(100) {
				endings = append(endings, idempotency.Ending{Claim: outcomes[i].Claim, Answer: response(`1`)})
			}
			recorded, err := b.keys.CompleteMany(t.Context(), endings)
			for _, ok := range recorded {
				if !ok {
					t.Error("a completion is not recorded")
				}
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}
