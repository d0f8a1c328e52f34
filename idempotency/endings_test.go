package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

func answering[T any](value T) idempotency.Effect[T] {
	return func(context.Context, *idempotency.Claim) (T, error) { return value, nil }
}

// The mark is for the Do that called the effect. An outer effect that returns the error of an inner Do may have made an
// effect before.
func TestInnerMarkIgnored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	outer, vendorCalls := task[int](b.ref("tool.x", "outer")), 0
	effect := func(ctx context.Context, _ *idempotency.Claim) (int, error) {
		vendorCalls++
		got, err := idempotency.Do(ctx, b.keys, task[int](b.ref("tool.x", "inner")), func(context.Context, *idempotency.Claim) (int, error) {
			return 0, idempotency.NoEffect(errors.New("429"))
		})
		return got.Value, err
	}
	for range 2 {
		_, err := idempotency.Do(t.Context(), b.keys, outer, effect)
		if err == nil {
			t.Fatal("no error")
		}
	}
	if vendorCalls != 1 {
		t.Errorf("the outer effect was made %d times under one lease", vendorCalls)
	}
	b.want(b.read(outer.Ref, content("1")), idempotency.Processing)
}

func TestFailureIsAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := &idempotency.Failure{Code: "not_found", Message: "no such message", Data: json.RawMessage(`{"id":"m1"}`)}
	calls := 0
	effect := func(context.Context, *idempotency.Claim) (int, error) {
		calls++
		return 0, want
	}
	for attempt := range 3 {
		got, err := idempotency.Do(t.Context(), b.keys, task[int](b.ref("tool.x", "k")), effect)
		var failure *idempotency.Failure
		if !errors.As(err, &failure) || got.Replayed != (attempt > 0) || got.Unrecorded != nil {
			t.Fatalf("attempt %d: %+v, %v", attempt, got, err)
		}
		if diff := cmp.Diff(want, failure); diff != "" {
			t.Errorf("attempt %d (-want +got):\n%s", attempt, diff)
		}
	}
	if calls != 1 {
		t.Errorf("%d effects", calls)
	}
	// Inside another error it is not an answer.
	wrapped := task[int](b.ref("tool.x", "wrapped"))
	if _, err := idempotency.Do(t.Context(), b.keys, wrapped, func(context.Context, *idempotency.Claim) (int, error) {
		return 0, fmt.Errorf("send: %w", want)
	}); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	b.want(b.read(wrapped.Ref, content("1")), idempotency.Processing)
	// The same for a caller that ends its claim itself.
	r := b.ref("tool.x", "direct")
	b.complete(b.own(r, content("1")), idempotency.FailureAnswer(want))
	if got, ok := b.read(r, content("1")).Answer.Failure(); !ok || got.Code != want.Code {
		t.Errorf("got %+v, %v", got, ok)
	}
}

// A replay returns what the first caller got.
func TestSameAnswerForAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type mail struct {
		ID     string `json:"id"`
		Hidden string `json:"-"`
		At     time.Time
	}
	made := mail{ID: "1", Hidden: "not stored", At: time.Now()}
	first, err := idempotency.Do(t.Context(), b.keys, task[mail](b.ref("tool.x", "k")), answering(made))
	if err != nil {
		t.Fatal(err)
	}
	again, err := idempotency.Do(t.Context(), b.keys, task[mail](b.ref("tool.x", "k")), answering(made))
	if err != nil || !again.Replayed {
		t.Fatalf("%+v, %v", again, err)
	}
	if diff := cmp.Diff(first.Value, again.Value); diff != "" {
		t.Errorf("(-first +replayed):\n%s", diff)
	}
}

func TestLostAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	panics := task[int](b.ref("tool.x", "panics"))
	panics.Encode = func(int) (idempotency.Answer, error) { panic("a fault of the caller's") }
	undecodable := task[int](b.ref("tool.x", "undecodable"))
	undecodable.Encode = func(int) (idempotency.Answer, error) { return response(`"text"`), nil }
	for name, tc := range map[string]struct {
		task   idempotency.Task[int]
		unkept bool
	}{
		"encoding panics": {panics, true}, "it cannot be decoded": {undecodable, false},
	} {
		got, err := idempotency.Do(t.Context(), b.keys, tc.task, answering(7))
		if err != nil || got.Value != 7 || got.Unrecorded == nil || errors.Is(got.Unrecorded, idempotency.ErrUnkept) != tc.unkept {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		b.want(b.read(tc.task.Ref, content("1")), idempotency.Completed) // the effect was made
	}
	// In a transaction it is reported while the effect can still be rolled back.
	b.exec(`CREATE TABLE effects (id int)`)
	long := task[string](b.ref("tool.x", "long"))
	_, err := idempotency.InTx(t.Context(), b.keys, long, func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (string, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES (1)`)
		return strings.Repeat("x", idempotency.MaxResponse), err
	})
	if !errors.Is(err, idempotency.ErrUnkept) {
		t.Errorf("got %v, want ErrUnkept", err)
	}
	if n := one[int](b, `SELECT count(*) FROM effects`); n != 0 {
		t.Error("the effect is committed without its answer")
	}
	b.want(b.read(long.Ref, content("1")), idempotency.Absent)
}

// bucket is an Overflow in memory.
type bucket map[string][]byte

func (b bucket) Put(_ context.Context, c *idempotency.Claim, response []byte) (idempotency.ResourceRef, error) {
	b[c.ID.String()] = response
	return idempotency.ResourceRef{Type: "bucket", ID: c.ID.String()}, nil
}

func (b bucket) Get(_ context.Context, ref idempotency.ResourceRef) ([]byte, error) {
	response, ok := b[ref.ID]
	if !ok {
		return nil, errors.New("no such object")
	}
	return response, nil
}

func TestOverflow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long, text := task[string](b.ref("tool.x", "k")), strings.Repeat("long ", idempotency.MaxResponse)
	kept := bucket{}
	long.Overflow = kept
	for attempt := range 2 {
		got, err := idempotency.Do(t.Context(), b.keys, long, answering(text))
		if err != nil || got.Value != text || got.Replayed != (attempt > 0) || got.Unrecorded != nil {
			t.Fatalf("attempt %d: %d bytes, replayed %v, unrecorded %v, %v", attempt, len(got.Value), got.Replayed, got.Unrecorded, err)
		}
	}
	if len(kept) != 1 {
		t.Errorf("%d objects", len(kept))
	}
	plain := task[string](long.Ref)
	if _, err := idempotency.Do(t.Context(), b.keys, plain, answering(text)); !errors.Is(err, idempotency.ErrUnkept) {
		t.Errorf("without the bucket: %v, want ErrUnkept", err)
	}
	clear(kept)
	if _, err := idempotency.Do(t.Context(), b.keys, long, answering(text)); err == nil || errors.Is(err, idempotency.ErrUnkept) {
		t.Errorf("while the bucket is away: %v, want an error that passes", err)
	}
}

// A caller that is gone began no effect, so its key is free.
func TestCancelledClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	claims := map[string]func(context.Context, idempotency.Ref) error{
		"Claim": func(ctx context.Context, r idempotency.Ref) error {
			o, err := b.keys.Claim(ctx, r, content("1"), lease)
			if err == nil && o.Claim != nil {
				b.release(o.Claim) // it was not cancelled in time
			}
			return err
		},
		"ClaimMany": func(ctx context.Context, r idempotency.Ref) error {
			all, err := b.keys.ClaimMany(ctx, []idempotency.Wanted{{Ref: r, Content: content("1")}}, lease)
			if err == nil && all[0].Claim != nil {
				b.release(all[0].Claim)
			}
			return err
		},
	}
	for name, claim := range claims {
		cancelled := 0
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			if err := claim(ctx, b.ref("tool.x", fmt.Sprint(name, i))); errors.Is(err, context.Canceled) {
				cancelled++
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if cancelled == 0 {
			t.Errorf("%s: none was cancelled on its way", name)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); b.rows() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys are held", b.rows())
		}
	}
}

func TestPeek(t *testing.T) {
	t.Parallel()
	b := setup(t)
	peek := func(key, text string) (idempotency.Result[int], bool, error) {
		tk := task[int](b.ref("tool.x", key))
		tk.Content = content(text)
		return idempotency.Peek(t.Context(), b.keys, tk)
	}
	if _, found, err := peek("absent", "1"); found || err != nil || b.rows() != 0 {
		t.Errorf("absent: %v, %v, %d rows", found, err, b.rows())
	}
	b.own(b.ref("tool.x", "held"), content("1"))
	if _, _, err := peek("held", "1"); !errors.Is(err, idempotency.ErrInFlight) {
		t.Errorf("held: %v", err)
	}
	if _, _, err := peek("held", "2"); !errors.Is(err, idempotency.ErrMismatch) {
		t.Errorf("held for other content: %v", err)
	}
	if _, err := idempotency.Do(t.Context(), b.keys, task[int](b.ref("tool.x", "done")), answering(7)); err != nil {
		t.Fatal(err)
	}
	if got, found, err := peek("done", "1"); !found || err != nil || got.Value != 7 || !got.Replayed {
		t.Errorf("done: %+v, %v, %v", got, found, err)
	}
	b.pass(lease)
	if _, found, err := peek("held", "1"); found || err != nil {
		t.Errorf("left by its worker: %v, %v", found, err)
	}
}

func TestObserverSeesEndings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var seen []string
	b.keys = idempotency.MustService(b.pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) {
		if e.Op != idempotency.OpClaim {
			seen = append(seen, fmt.Sprintf("%s %v", e.Op, e.Err != nil))
		}
	}})
	run := func(key string, effect idempotency.Effect[int]) {
		defer func() { _ = recover() }()
		_, _ = idempotency.Do(t.Context(), b.keys, task[int](b.ref("tool.x", key)), effect)
	}
	run("answered", answering(1))
	run("unknown", func(context.Context, *idempotency.Claim) (int, error) { return 0, errors.New("no") })
	run("none", func(context.Context, *idempotency.Claim) (int, error) {
		return 0, idempotency.NoEffect(errors.New("429"))
	})
	run("panics", func(context.Context, *idempotency.Claim) (int, error) { panic("!") })
	_, _ = idempotency.InTx(t.Context(), b.keys, task[int](b.ref("tool.x", "rolled back")), func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) {
		return 0, errors.New("no")
	})
	if diff := cmp.Diff([]string{"complete false", "abandon true", "release false", "abandon true", "rollback true"}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
