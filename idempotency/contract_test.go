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

// together calls f from n goroutines that start at once, and returns the results.
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

func TestOneOwnerOf20Claims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	outcomes := together(20, func(int) idempotency.Outcome { return b.claim(r, content("1")) })
	b.wantKinds(outcomes, map[idempotency.Kind]int{idempotency.Claimed: 1, idempotency.Processing: 19})
}

// A direct capability or generic definition start is an insert into another table, after a Read. For it the package
// writes nothing: no row, and takes no lock or transaction id.
func TestRefusalsWriteNoRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE agent_runs (key text PRIMARY KEY)`)
	for _, start := range []string{"capability.direct", "definition.generic"} {
		tx := b.begin()
		keys := b.keys.In(tx)
		if o, err := keys.Read(t.Context(), b.ref("surface."+start, "k"), content("1")); err != nil || o.Kind != idempotency.Absent {
			t.Errorf("%s: %s, %v, want absent", start, o.Kind, err)
		}
		if _, err := keys.ClaimMany(t.Context(), nil, lease); err != nil {
			t.Fatal(err)
		}
		var wrote bool
		if err := tx.QueryRow(t.Context(), `SELECT pg_current_xact_id_if_assigned() IS NOT NULL`).Scan(&wrote); err != nil || wrote {
			t.Errorf("%s: the plane has written something, %v", start, err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO agent_runs VALUES ($1)`, start); err != nil {
			t.Fatal(err)
		}
		b.commit(tx)
	}
	if runs, keys := one[int](b, `SELECT count(*) FROM agent_runs`), b.rows(); runs != 2 || keys != 0 {
		t.Errorf("%d runs and %d keys, want 2 and none", runs, keys)
	}
}

// savedSearch is a caller like a surface: it freezes an input before a run is admitted. The stored snapshot is the
// answer; runs are admitted under a key that is derived from it.
type savedSearch struct {
	*bundle
	prepared atomic.Int32
}

// newSavedSearch creates the table of runs, which admits one run per key.
func newSavedSearch(t *testing.T) *savedSearch {
	t.Helper()
	s := &savedSearch{bundle: setup(t)}
	s.exec(`CREATE TABLE agent_runs (key text PRIMARY KEY, brief text NOT NULL, admitted_at timestamptz NOT NULL DEFAULT now())`)
	return s
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
			return snapshot{Brief: fmt.Sprint("as of preparation ", n), RunKey: mustKey(s.T, "run", r.Key.String()).String()}, nil
		})
	if err == nil && result.Unrecorded != nil {
		return snapshot{}, result.Unrecorded // no run without a frozen input
	}
	if err == nil {
		s.exec(`INSERT INTO agent_runs (key, brief) VALUES ($1, $2) ON CONFLICT DO NOTHING`, result.Value.RunKey, result.Value.Brief)
	}
	return result.Value, err
}

// runs returns the briefs with which runs were admitted.
func (s *savedSearch) runs() []string {
	s.Helper()
	return one[[]string](s.bundle, `SELECT coalesce(array_agg(brief ORDER BY admitted_at), '{}') FROM agent_runs`)
}

// pass also ages the runs, which are kept for 396 days.
func (s *savedSearch) pass(d time.Duration) {
	s.Helper()
	s.bundle.pass(d)
	s.exec(`UPDATE agent_runs SET admitted_at = admitted_at - $1::interval`, d)
	s.exec(`DELETE FROM agent_runs WHERE admitted_at <= now() - interval '396 days'`)
}

func TestSearchOneSnapshotOf20(t *testing.T) {
	t.Parallel()
	s := newSavedSearch(t)
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

func TestSearchInProgressThenReclaim(t *testing.T) {
	t.Parallel()
	s := newSavedSearch(t)
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

func TestSearchFenceLost(t *testing.T) {
	t.Parallel()
	s := newSavedSearch(t)
	r := s.ref("surface.saved_search.start", "search:1")
	_, err := s.start(r, func() {
		s.pass(lease)
		s.own(r, content("brief"))
	})
	if !errors.Is(err, idempotency.ErrFenceLost) {
		t.Errorf("got %v, want ErrFenceLost", err)
	}
	if runs := s.runs(); len(runs) != 0 {
		t.Errorf("runs were started: %v", runs)
	}
}

// The snapshot is remembered for a day. The run that it admitted is found under the same key for as long as runs are
// kept, although every start after the day takes a new snapshot.
func TestSearchSnapshotFor24Hours(t *testing.T) {
	t.Parallel()
	s := newSavedSearch(t)
	r := s.ref("surface.saved_search.start", "search:1")
	const day = 24 * time.Hour
	age := time.Duration(0)
	for _, step := range []struct {
		age      time.Duration
		snapshot int // the preparation that the start is answered with
		run      int // and the one that the only run has
	}{
		{0, 1, 1},
		{day - time.Minute, 1, 1},
		{day, 2, 1},
		{200 * day, 3, 1},
		{396*day - time.Minute, 4, 1},
		{397 * day, 5, 5}, // the run is gone, and so is the preparation of the day before
	} {
		s.pass(step.age - age)
		age = step.age
		got, err := s.start(r, nil)
		if want := fmt.Sprint("as of preparation ", step.snapshot); err != nil || got.Brief != want {
			t.Errorf("after %s: %+v, %v, want it %s", step.age, got, err, want)
		}
		if diff := cmp.Diff([]string{fmt.Sprint("as of preparation ", step.run)}, s.runs()); diff != "" {
			t.Errorf("after %s: runs (-want +got):\n%s", step.age, diff)
		}
	}
}

func TestSameKeyOtherHash(t *testing.T) {
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

func TestDuplicateGetsStoredAnswer(t *testing.T) {
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

func TestReadWritesNothing(t *testing.T) {
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

func TestReclaimAfterCrash(t *testing.T) {
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

func TestLiveLeaseIsSafe(t *testing.T) {
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

func TestInFlightIsError(t *testing.T) {
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

func TestOneWorkerReclaims(t *testing.T) {
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

func TestReplacedCannotComplete(t *testing.T) {
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

// The opposite case: no worker took the claim over, so the late effect is the effect.
func TestLateCompletion(t *testing.T) {
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

func TestReplacedCannotRelease(t *testing.T) {
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

func TestReadAfterLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.email.send", "k")
	b.complete(b.own(r, content("1")), response(`1`))
	b.pass(29 * 24 * time.Hour)
	b.want(b.read(r, content("1")), idempotency.Completed)
	b.want(b.claim(r, content("1")), idempotency.Completed)
}

func TestReclaimKeepsRetention(t *testing.T) {
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
	// A late reclaim extends the retention as well.
	b.pass(20 * time.Hour)
	b.exec(`UPDATE agent.idempotency_keys SET retain_until = now() + interval '1 hour'`)
	b.own(r, content("1"))
	if left := one[time.Duration](b, `SELECT retain_until - now() FROM agent.idempotency_keys`); left < 23*time.Hour {
		t.Errorf("retained for %s, want 24h", left)
	}
}

func TestNoEffectReleases(t *testing.T) {
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

func TestBusinessFailureCompletes(t *testing.T) {
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

// The worker dies after the vendor has sent the mail. The next worker calls the vendor again, which knows the key.
func TestVendorKeyAfterCrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := idempotency.Ref{Organization: b.org, Scope: mustScope(b, "tool.email.send"), Key: mustKey(b, "job_17", "3", "send")}
	send := idempotency.Task[string]{Ref: r, Content: content("1"), Lease: lease}
	var calls []string            // the keys that the vendor was called with
	ledger := map[string]string{} // what the vendor answered to each, and repeats
	vendor := func(key string) string {
		calls = append(calls, key)
		if ledger[key] == "" {
			ledger[key] = fmt.Sprint("mail ", len(ledger)+1)
		}
		return ledger[key]
	}
	dead := b.own(send.Ref, send.Content)
	vendor(dead.Ref.Key.String())
	b.pass(lease)
	for attempt := range 3 {
		got, err := idempotency.Do(t.Context(), b.keys, send, func(_ context.Context, c *idempotency.Claim) (string, error) {
			return vendor(c.Ref.Key.String()), nil
		})
		if err != nil || got.Value != "mail 1" || got.Replayed != (attempt > 0) {
			t.Errorf("attempt %d: %+v, %v, want mail 1", attempt, got, err)
		}
	}
	if diff := cmp.Diff([]string{"job_17:3:send", "job_17:3:send"}, calls); diff != "" {
		t.Errorf("the vendor was called with (-want +got):\n%s", diff)
	}
}

func TestToolClaimOutlivesADay(t *testing.T) {
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
