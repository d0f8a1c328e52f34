package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/idempotency"
)

type message struct {
	ID string `json:"id"`
}

func task[T any](r idempotency.Ref) idempotency.Task[T] {
	return idempotency.Task[T]{Ref: r, Content: content("1"), Lease: lease}
}

func TestDoReplays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	calls := 0
	send := func(context.Context, *idempotency.Claim) (message, error) {
		calls++
		return message{ID: fmt.Sprint(calls)}, nil
	}
	for attempt := range 3 {
		got, err := idempotency.Do(t.Context(), b.keys, task[message](b.ref("tool.x", "k")), send)
		want := idempotency.Result[message]{Value: message{ID: "1"}, Replayed: attempt > 0}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("attempt %d (-want +got):\n%s %v", attempt, diff, err)
		}
	}
	other := task[message](b.ref("tool.x", "k"))
	other.Content = content("2")
	var mismatch *idempotency.MismatchError
	if _, err := idempotency.Do(t.Context(), b.keys, other, send); !errors.As(err, &mismatch) || mismatch.Ref != other.Ref || calls != 1 {
		t.Errorf("other content: %v after %d calls", err, calls)
	}
}

func TestDoConcurrently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := idempotency.Do(t.Context(), b.keys, task[int](b.ref("tool.x", "k")),
			func(context.Context, *idempotency.Claim) (int, error) {
				close(inside)
				<-leave
				return 1, nil
			})
		first <- err
	}()
	<-inside
	for _, err := range together(10, func(int) error {
		_, err := idempotency.Do(t.Context(), b.keys, task[int](b.ref("tool.x", "k")),
			func(context.Context, *idempotency.Claim) (int, error) {
				t.Error("a second effect")
				return 0, nil
			})
		return err
	}) {
		if !errors.Is(err, idempotency.ErrInFlight) {
			t.Errorf("got %v, want in flight", err)
		}
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestDoEndings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	failure := errors.New("vendor says no")
	for name, tc := range map[string]struct {
		effect func(context.Context, *idempotency.Claim) (int, error)
		want   error
		after  idempotency.Kind
	}{
		"an answer":           {func(context.Context, *idempotency.Claim) (int, error) { return 1, nil }, nil, idempotency.Completed},
		"certainly no effect": {func(context.Context, *idempotency.Claim) (int, error) { return 1, idempotency.NoEffect(failure) }, failure, idempotency.Absent},
		"wrapped": {func(context.Context, *idempotency.Claim) (int, error) {
			return 1, fmt.Errorf("send: %w", idempotency.NoEffect(failure))
		}, failure, idempotency.Processing},
		"joined with an unknown one": {func(context.Context, *idempotency.Claim) (int, error) {
			return 1, errors.Join(idempotency.NoEffect(errors.New("429")), failure)
		}, failure, idempotency.Processing},
		"unknown":    {func(context.Context, *idempotency.Claim) (int, error) { return 1, failure }, failure, idempotency.Processing},
		"a time-out": {func(context.Context, *idempotency.Claim) (int, error) { return 1, context.DeadlineExceeded }, context.DeadlineExceeded, idempotency.Processing},
	} {
		r := b.ref("tool.x", name)
		got, err := idempotency.Do(t.Context(), b.keys, task[int](r), tc.effect)
		if !errors.Is(err, tc.want) || (err == nil) != (got.Value == 1) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if o := b.read(r, content("1")); o.Kind != tc.after {
			t.Errorf("%s: the key is %s afterwards, want %s", name, o.Kind, tc.after)
		}
	}
	if idempotency.NoEffect(nil) != nil {
		t.Error("no error became one")
	}
	r := b.ref("tool.x", "panic")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = idempotency.Do(t.Context(), b.keys, task[int](r), func(context.Context, *idempotency.Claim) (int, error) { panic("!") })
	}()
	b.want(b.read(r, content("1")), idempotency.Processing)
}

func TestEffectOutlivesLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	got, err := idempotency.Do(t.Context(), b.keys, task[int](r), func(ctx context.Context, c *idempotency.Claim) (int, error) {
		if d, ok := ctx.Deadline(); !ok || !d.Before(c.Deadline.Add(-time.Second)) {
			t.Errorf("the context ends %s before the lease", c.Deadline.Sub(d))
		}
		b.pass(lease)
		b.own(r, content("1")) // and another worker takes over
		return 7, nil
	})
	if err != nil || got.Value != 7 || !errors.Is(got.Unrecorded, idempotency.ErrFenceLost) {
		t.Errorf("%+v, %v, want the value, unrecorded", got, err)
	}
}

func TestEffectContextEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	short := task[int](b.ref("tool.x", "k"))
	short.Lease = 50 * time.Millisecond
	_, err := idempotency.Do(t.Context(), b.keys, short, func(ctx context.Context, _ *idempotency.Claim) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	if err == nil || err.Error() != "idempotency: the claim's lease is about to end" {
		t.Errorf("got %v", err)
	}
}

func TestStoredAfterHangUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, hangUp := context.WithCancel(t.Context())
	got, err := idempotency.Do(ctx, b.keys, task[int](b.ref("tool.x", "k")), func(context.Context, *idempotency.Claim) (int, error) {
		hangUp()
		return 1, nil
	})
	if err != nil || got.Unrecorded != nil {
		t.Errorf("%+v, %v", got, err)
	}
	b.want(b.read(b.ref("tool.x", "k"), content("1")), idempotency.Completed)
}

func TestReconcileBeforeEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	failure := errors.New("no answer")
	for name, tc := range map[string]struct {
		found     bool
		reconcile error
		effect    error
		want      int
		calls     int
		after     idempotency.Kind
		reclaims  bool // whether the next claim knows of an earlier worker
	}{
		"found":                              {found: true, want: 1, after: idempotency.Completed},
		"not found":                          {want: 2, calls: 1, after: idempotency.Completed},
		"could not look":                     {reconcile: idempotency.NoEffect(failure), after: idempotency.Absent, reclaims: true},
		"looked in vain":                     {reconcile: failure, after: idempotency.Processing},
		"not found, and certainly no effect": {effect: idempotency.NoEffect(failure), calls: 1, after: idempotency.Absent, reclaims: true},
	} {
		r := b.ref("tool.x", name)
		b.own(r, content("1"))
		b.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = claimed_at WHERE key = $1`, r.Key.String())
		calls := 0
		reconciling := task[int](r)
		reconciling.Reconcile = func(_ context.Context, c *idempotency.Claim) (int, bool, error) {
			if calls > 0 || !c.Reclaimed {
				t.Errorf("%s: reconciled after the effect", name)
			}
			return 1, tc.found, tc.reconcile
		}
		got, err := idempotency.Do(t.Context(), b.keys, reconciling, func(context.Context, *idempotency.Claim) (int, error) {
			calls++
			return 2, tc.effect
		})
		if got.Value != tc.want || calls != tc.calls || (tc.want == 0) != errors.Is(err, failure) {
			t.Errorf("%s: %+v, %v after %d calls", name, got, err, calls)
		}
		if o := b.read(r, content("1")); o.Kind != tc.after {
			t.Errorf("%s: the key is %s afterwards, want %s", name, o.Kind, tc.after)
		}
		if tc.after == idempotency.Absent {
			if c := b.own(r, content("1")); c.Reclaimed != tc.reclaims {
				t.Errorf("%s: reclaimed is %v, want %v", name, c.Reclaimed, tc.reclaims)
			}
		}
	}
}

// The earlier worker may have made the effect. If the release deleted the row, later workers would not know.
func TestReleaseOfReclaimed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	b.own(r, content("1"))
	b.pass(lease)
	for range 3 {
		_, err := idempotency.Do(t.Context(), b.keys, task[int](r), func(_ context.Context, c *idempotency.Claim) (int, error) {
			if !c.Reclaimed {
				t.Error("the handler is not told")
			}
			return 0, idempotency.NoEffect(errors.New("429"))
		})
		if err == nil || errors.Is(err, idempotency.ErrInFlight) {
			t.Errorf("got %v, want the effect's own error at once", err)
		}
	}
}

func TestUnkeptAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	calls := 0
	nan := func(context.Context, *idempotency.Claim) (float64, error) {
		calls++
		return math.NaN(), nil
	}
	got, err := idempotency.Do(t.Context(), b.keys, task[float64](b.ref("tool.x", "nan")), nan)
	if err != nil || !errors.Is(got.Unrecorded, idempotency.ErrUnkept) || !math.IsNaN(got.Value) {
		t.Errorf("%+v, %v, want the value, unrecorded", got, err)
	}
	var unkept *idempotency.UnkeptError
	if _, err := idempotency.Do(t.Context(), b.keys, task[float64](b.ref("tool.x", "nan")), nan); !errors.As(err, &unkept) || unkept.Unkept.Reason != "unencodable" || calls != 1 {
		t.Errorf("got %v after %d calls, want UnkeptError", err, calls)
	}
	// An Encode that records nothing would replay an empty success.
	empty := task[int](b.ref("tool.x", "empty"))
	empty.Encode = func(int) (idempotency.Answer, error) { return idempotency.Answer{}, nil }
	one := func(context.Context, *idempotency.Claim) (int, error) { return 1, nil }
	if got, err := idempotency.Do(t.Context(), b.keys, empty, one); err != nil || !errors.Is(got.Unrecorded, idempotency.ErrUnkept) {
		t.Errorf("%+v, %v, want it unrecorded", got, err)
	}
	if _, err := idempotency.Do(t.Context(), b.keys, empty, one); !errors.As(err, &unkept) {
		t.Errorf("got %v, want UnkeptError", err)
	}
}

func TestEncodeStoresElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	elsewhere, text := map[string]string{}, strings.Repeat("a long text ", idempotency.MaxResponse/12+1)
	effect := func(context.Context, *idempotency.Claim) (string, error) { return text, nil }
	var unkept *idempotency.UnkeptError
	for range 2 { // the row accepts none of it
		_, err := idempotency.Do(t.Context(), b.keys, task[string](b.ref("tool.x", "whole")), effect)
		if err != nil && (!errors.As(err, &unkept) || unkept.Unkept.Reason != "too_large") {
			t.Fatal(err)
		}
	}
	if unkept == nil {
		t.Errorf("%d bytes are kept in the row", len(text))
	}
	long := task[string](b.ref("tool.x", "k"))
	long.Encode = func(text string) (idempotency.Answer, error) {
		elsewhere["object-1"] = text
		return idempotency.Answer{Resource: idempotency.ResourceRef{Type: "object", ID: "object-1"}}, nil
	}
	long.Decode = func(a idempotency.Answer) (string, error) { return elsewhere[a.Resource.ID], nil }
	for attempt := range 2 {
		got, err := idempotency.Do(t.Context(), b.keys, long, effect)
		if err != nil || got.Value != text || got.Replayed != (attempt == 1) {
			t.Errorf("attempt %d: %d bytes, replayed %v, %v", attempt, len(got.Value), got.Replayed, err)
		}
	}
	// A caller that cannot decode it learns where it is.
	if _, err := idempotency.Do(t.Context(), b.keys, task[string](b.ref("tool.x", "k")), effect); !errors.As(err, &unkept) || unkept.Resource.ID != "object-1" {
		t.Errorf("got %v, want an UnkeptError that names the resource", err)
	}
	bad := task[int](b.ref("tool.x", "typed"))
	b.complete(b.own(bad.Ref, content("1")), response(`"text"`))
	one := func(context.Context, *idempotency.Claim) (int, error) { return 1, nil }
	if _, err := idempotency.Do(t.Context(), b.keys, bad, one); err == nil {
		t.Error("a text was decoded into a number")
	}
}

func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		waits idempotency.RetrySchedule
		ok    bool
	}{
		{nil, false},
		{idempotency.RetrySchedule{10 * time.Second, 20 * time.Second}, false},
		{idempotency.RetrySchedule{10 * time.Second, 20*time.Second + 1}, true},
		{idempotency.RetrySchedule{time.Second, time.Minute}, true},
	} {
		if err := tc.waits.Outlasts(lease); (err == nil) != tc.ok || (err != nil && !errors.Is(err, idempotency.ErrSchedule)) {
			t.Errorf("%v: %v, want ok %v", tc.waits, err, tc.ok)
		}
	}
}
