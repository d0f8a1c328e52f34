package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/idempotency"
)

// together calls f from n goroutines that start at once, and returns what they returned.
func together[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			results[i] = f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return results
}

func count(outcomes []idempotency.Outcome) map[idempotency.Kind]int {
	kinds := map[idempotency.Kind]int{}
	for _, o := range outcomes {
		kinds[o.Kind]++
	}
	return kinds
}

func (b *bundle) wantKinds(outcomes []idempotency.Outcome, want map[idempotency.Kind]int) {
	b.Helper()
	if diff := cmp.Diff(want, count(outcomes)); diff != "" {
		b.Fatalf("outcomes (-want +got):\n%s", diff)
	}
}

func Test20ConcurrentClaimsForSameKeyProduceOneOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	outcomes := together(20, func(int) idempotency.Outcome { return b.claim(r, content("1")) })
	b.wantKinds(outcomes, map[idempotency.Kind]int{idempotency.Claimed: 1, idempotency.Processing: 19})
}

// A direct capability or generic definition start is an insert into another table: the plane is not told
// of it, and nothing writes here unless a key is claimed.
func TestWhatClaimsNoKeyWritesNoRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.read(b.ref("surface.saved_search.start", "k"), content("1"))
	if _, err := b.keys.ClaimMany(t.Context(), nil, lease); err != nil {
		t.Fatal(err)
	}
	if n := b.rows(); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// savedSearch is a caller as a surface is one: it freezes an input before a run is admitted. The stored
// snapshot is the answer; runs are admitted under a key that is derived from it.
type savedSearch struct {
	*bundle
	prepared atomic.Int32
	started  sync.Map // run key -> true
}

type snapshot struct {
	Brief  string `json:"brief"`
	RunKey string `json:"run_key"`
}

func (s *savedSearch) start(r idempotency.Ref, during func()) (snapshot, error) {
	result, err := idempotency.Do(s.Context(), s.keys, idempotency.Task[snapshot]{Ref: r, Content: content("brief"), Lease: lease},
		func(context.Context, *idempotency.Claim) (snapshot, error) {
			n := s.prepared.Add(1)
			if during != nil {
				during()
			}
			return snapshot{Brief: fmt.Sprint("as of preparation ", n), RunKey: "run:" + r.Key.String()}, nil
		})
	if err == nil && result.Unrecorded != nil {
		return snapshot{}, result.Unrecorded // no run without a frozen input
	}
	if err == nil {
		s.started.Store(result.Value.RunKey, true)
	}
	return result.Value, err
}

func TestASavedSearchStartFreezesOneInput20ConcurrentPreparationsProduceOneSnapshot(t *testing.T) {
	t.Parallel()
	s := &savedSearch{bundle: setup(t)}
	r := s.ref("surface.saved_search.start", "search:1")
	errs := together(20, func(int) error { _, err := s.start(r, nil); return err })
	for _, err := range errs {
		if err != nil && !errors.Is(err, idempotency.ErrInFlight) {
			t.Error(err)
		}
	}
	got, err := s.start(r, nil)
	if err != nil || s.prepared.Load() != 1 || got.Brief != "as of preparation 1" {
		t.Errorf("%d preparations, %+v, %v, want one snapshot", s.prepared.Load(), got, err)
	}
}

func TestALiveSavedSearchPreparationReturnsRetryableInProgressAndOneCallerReclaimsIt(t *testing.T) {
	t.Parallel()
	s := &savedSearch{bundle: setup(t)}
	r := s.ref("surface.saved_search.start", "search:1")
	s.own(r, content("brief")) // its worker dies
	var inFlight *idempotency.InFlightError
	if _, err := s.start(r, nil); !errors.As(err, &inFlight) || inFlight.RetryAfter <= 0 || inFlight.RetryAfter > lease {
		t.Fatalf("got %v, want in flight for at most %s", err, lease)
	}
	s.pass(lease)
	errs := together(10, func(int) error { _, err := s.start(r, nil); return err })
	for _, err := range errs {
		if err != nil && !errors.Is(err, idempotency.ErrInFlight) {
			t.Error(err)
		}
	}
	if n := s.prepared.Load(); n != 1 {
		t.Errorf("%d preparations after the lease, want 1", n)
	}
}

func TestASavedSearchPreparationFenceLostBeforeCompletionStartsNoRun(t *testing.T) {
	t.Parallel()
	s := &savedSearch{bundle: setup(t)}
	r := s.ref("surface.saved_search.start", "search:1")
	_, err := s.start(r, func() {
		s.pass(lease)
		s.own(r, content("brief"))
	})
	if !errors.Is(err, idempotency.ErrFenceLost) {
		t.Errorf("got %v, want ErrFenceLost", err)
	}
	if _, started := s.started.Load("run:search:1"); started {
		t.Error("a run was started")
	}
}

func TestASavedSearchSnapshotRemainsFor24HoursUnderAStableRunKey(t *testing.T) {
	t.Parallel()
	s := &savedSearch{bundle: setup(t)}
	r := s.ref("surface.saved_search.start", "search:1")
	first, err := s.start(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.pass(24*time.Hour - time.Minute)
	if again, err := s.start(r, nil); err != nil || again != first {
		t.Errorf("after 23:59: %+v, %v, want %+v", again, err, first)
	}
	s.pass(time.Minute)
	// The snapshot is taken anew, the run's own key is the same for as long as runs are kept.
	again, err := s.start(r, nil)
	if err != nil || again.Brief == first.Brief || again.RunKey != first.RunKey {
		t.Errorf("after 24:00: %+v, %v", again, err)
	}
}

func TestSameKeyDifferentHashFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	c := b.own(r, content("1"))
	for _, state := range []string{"processing", "lease passed", "completed"} {
		before := b.row(r)
		for _, o := range []idempotency.Outcome{b.claim(r, content("2")), b.read(r, content("2"))} {
			b.want(o, idempotency.Conflict)
			if !errors.Is(o.Err(), idempotency.ErrMismatch) || o.Claim != nil || o.Answer.Response != nil || o.Answer.Resource.ID != "" {
				t.Errorf("%s: %+v, %v, want a mismatch that gives nothing away", state, o, o.Err())
			}
		}
		if after := b.row(r); after != before {
			t.Errorf("%s: the row changed", state)
		}
		if state == "processing" {
			b.pass(lease)
		} else {
			b.complete(c, response(`"secret"`))
		}
	}
}

func TestCompletedDuplicateReturnsStoredResourceAndResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	want := idempotency.Answer{
		Resource: idempotency.ResourceRef{Type: "message", ID: "m-1"},
		Response: json.RawMessage(`{"ok": true}`),
	}
	if !b.complete(b.own(r, content("1")), want) {
		t.Fatal("not recorded")
	}
	for _, o := range []idempotency.Outcome{b.claim(r, content("1")), b.read(r, content("1"))} {
		b.want(o, idempotency.Completed)
		if diff := cmp.Diff(want, o.Answer); diff != "" || o.Err() != nil || o.Own {
			t.Errorf("answer (-want +got):\n%s err %v, own %v", diff, o.Err(), o.Own)
		}
	}
}

func TestReadWritesNoRowAndAnswersAbsentForAClaimWhoseLeasePassed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	quiet := func(want idempotency.Kind) {
		t.Helper()
		before := b.row(r)
		for range 50 {
			b.want(b.read(r, content("1")), want)
		}
		if b.row(r) != before {
			t.Errorf("reads of an %s key changed it", want)
		}
	}
	quiet(idempotency.Absent)
	c := b.own(r, content("1"))
	quiet(idempotency.Processing)
	b.pass(lease)
	quiet(idempotency.Absent)
	b.want(b.read(r, content("2")), idempotency.Conflict)
	b.complete(c, response(`1`))
	quiet(idempotency.Completed)
	b.pass(31 * 24 * time.Hour)
	quiet(idempotency.Absent)
}

func TestACrashedWorkersClaimIsReclaimedByTheNextCaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	dead := b.own(r, content("1"))
	b.pass(lease)
	next := b.own(r, content("1"))
	if !next.Reclaimed || next.Token == dead.Token || next.ID != dead.ID {
		t.Errorf("%+v after %+v, want the same row reclaimed under a new token", next, dead)
	}
	if !b.complete(next, response(`1`)) {
		t.Error("the run does not continue")
	}
}

func TestLiveLeaseCannotBeStolen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	c := b.own(r, content("1"))
	b.pass(lease - 5*time.Second)
	o := b.claim(r, content("1"))
	b.want(o, idempotency.Processing)
	if o.RetryAfter <= 0 || o.RetryAfter > 5*time.Second {
		t.Errorf("%s left, want at most 5s", o.RetryAfter)
	}
	if !b.complete(c, response(`1`)) {
		t.Error("the owner lost the claim")
	}
}

func TestALiveLeaseOnTheCallersOwnKeyRaisesAndNoResultReportsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	b.own(r, content("1"))
	result, err := idempotency.Do(t.Context(), b.keys, idempotency.Task[string]{Ref: r, Content: content("1"), Lease: lease},
		func(context.Context, *idempotency.Claim) (string, error) {
			t.Error("the effect was made")
			return "", nil
		})
	var inFlight *idempotency.InFlightError
	if !errors.As(err, &inFlight) || !errors.Is(err, idempotency.ErrInFlight) || result.Value != "" || result.Replayed {
		t.Errorf("%+v, %v, want an InFlightError and no result", result, err)
	}
}

func TestAPassedLeaseIsReclaimedByExactlyOneWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 20 {
		r := b.ref("tool.email.send", fmt.Sprint(round))
		b.own(r, content("1"))
		b.pass(lease)
		outcomes := together(20, func(int) idempotency.Outcome { return b.claim(r, content("1")) })
		b.wantKinds(outcomes, map[idempotency.Kind]int{idempotency.Claimed: 1, idempotency.Processing: 19})
	}
}

func TestAWorkerWhoseLeasePassedCannotCompleteTheClaimAfterwards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	late := b.own(r, content("1"))
	b.pass(lease)
	next := b.own(r, content("1"))
	before := b.row(r)
	if b.complete(late, response(`"stale"`)) || b.row(r) != before {
		t.Error("the claim moved on and its old worker completed it")
	}
	b.complete(next, response(`"fresh"`))
	before = b.row(r)
	if b.complete(late, response(`"stale"`)) || b.row(r) != before {
		t.Error("the old worker wrote over the new one's answer")
	}
}

// The other reading: nobody took the claim over, so the effect that was made late is the effect.
func TestAWorkerWhoseLeasePassedCompletesWhileNobodyReclaimed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	late := b.own(r, content("1"))
	b.pass(2 * lease)
	if !b.complete(late, response(`"made"`)) {
		t.Fatal("the effect was made and is not recorded")
	}
	b.want(b.claim(r, content("1")), idempotency.Completed)
}

func TestAWorkerWhoseLeasePassedCannotReleaseTheClaimAnotherWorkerHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	late := b.own(r, content("1"))
	b.pass(lease)
	next := b.own(r, content("1"))
	before := b.row(r)
	if b.release(late) || b.row(r) != before {
		t.Error("the old worker released the new one's claim")
	}
	b.complete(next, response(`1`))
	if b.release(late) || b.release(next) || b.row(r) == "" {
		t.Error("a completed claim was released")
	}
}

func TestAClaimWhoseLeasePassedIsStillReadableWhileRetainUntilHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	b.complete(b.own(r, content("1")), response(`1`))
	b.pass(29 * 24 * time.Hour)
	b.want(b.read(r, content("1")), idempotency.Completed)
	b.want(b.claim(r, content("1")), idempotency.Completed)
}

func TestAReclaimMovesTheLeaseAndNeverShortensRetainUntil(t *testing.T) {
	t.Parallel()
	b := setup(t)
	retain := func() time.Time { return one[time.Time](b, `SELECT retain_until FROM agent.idempotency_keys`) }
	r := b.ref("webhook.nylas", "k")
	b.claimFor(r, content("1"), 48*time.Hour) // raises the retention to the lease
	b.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = now()`)
	before := retain()
	next := b.own(r, content("1"))
	if !next.Reclaimed || !retain().Equal(before) {
		t.Errorf("reclaimed %v, retained until %s, want %s", next.Reclaimed, retain(), before)
	}
	left := one[time.Duration](b, `SELECT lease_expires_at - now() FROM agent.idempotency_keys`)
	if left <= 0 || left > lease {
		t.Errorf("lease of %s, want %s", left, lease)
	}
	// And the retention moves on with a reclaim that comes late.
	b.pass(20 * time.Hour)
	b.exec(`UPDATE agent.idempotency_keys SET retain_until = now() + interval '1 hour'`)
	b.own(r, content("1"))
	if left := one[time.Duration](b, `SELECT retain_until - now() FROM agent.idempotency_keys`); left < 23*time.Hour {
		t.Errorf("retained for %s, want 24h", left)
	}
}

func TestARetryableToolFailureReleasesTheClaimAndTheNextAttemptExecutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	calls := 0
	do := func() (idempotency.Result[string], error) {
		return idempotency.Do(t.Context(), b.keys, idempotency.Task[string]{Ref: r, Content: content("1"), Lease: lease},
			func(context.Context, *idempotency.Claim) (string, error) {
				if calls++; calls == 1 {
					return "", idempotency.NoEffect(errors.New("429"))
				}
				return "sent", nil
			})
	}
	if _, err := do(); err == nil || err.Error() != "429" {
		t.Fatalf("got %v, want the effect's own error", err)
	}
	if b.rows() != 0 {
		t.Fatal("the claim was not released")
	}
	if got, err := do(); err != nil || got.Value != "sent" || got.Replayed || calls != 2 {
		t.Errorf("%+v, %v after %d calls", got, err, calls)
	}
}

func TestABusinessFailureCompletesTheClaimAndTheNextAttemptReturnsTheStoredAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type toolResult struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	want := toolResult{Error: "not_found"}
	calls := 0
	for attempt := range 3 {
		got, err := idempotency.Do(t.Context(), b.keys,
			idempotency.Task[toolResult]{Ref: b.ref("tool.crm.find", "k"), Content: content("1"), Lease: lease},
			func(context.Context, *idempotency.Claim) (toolResult, error) {
				calls++
				return want, nil
			})
		if err != nil || got.Value != want || got.Replayed != (attempt > 0) {
			t.Errorf("attempt %d: %+v, %v", attempt, got, err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

func TestVendorIdempotencyPreventsDuplicateSendAfterCrashAndRetry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	sent := map[string]int{} // the vendor's own ledger
	send := func(key string) {
		if sent[key] == 0 {
			sent[key]++
		}
	}
	dead := b.own(r, content("1"))
	send(dead.Ref.Key.String()) // and the worker dies before it completes
	b.pass(lease)
	next := b.own(r, content("1"))
	send(next.Ref.Key.String())
	b.complete(next, response(`"sent"`))
	if len(sent) != 1 || sent["k"] != 1 {
		t.Errorf("sent %v, want one", sent)
	}
}

func TestAToolClaimSurvivesARunThatWaitedOnAnApprovalForLongerThanADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	b.complete(b.own(r, content("1")), response(`"sent"`))
	b.pass(29 * 24 * time.Hour)
	if _, _, err := b.keys.Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	b.want(b.claim(r, content("1")), idempotency.Completed)
	b.pass(24 * time.Hour)
	b.want(b.read(r, content("1")), idempotency.Absent)
}
