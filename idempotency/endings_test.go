package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

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

// A server's restart costs a moment, and repeats no effect.
func TestFinishOutlivesOutage(t *testing.T) {
	t.Parallel()
	b, w := onWire(t)
	r := b.ref("tool.email.send", "k")
	got, err := idempotency.Do(t.Context(), b.keys, task[int](r), func(context.Context, *idempotency.Claim) (int, error) {
		w.failing.Store(10) // more than a statement is resent for
		return 1, nil
	})
	if err != nil || got.Unrecorded != nil {
		t.Errorf("%+v, %v, want it recorded", got, err)
	}
	if w.failing.Load() > 0 {
		t.Error("the outage was shorter than planned")
	}
	b.want(b.read(r, content("1")), idempotency.Completed)
}

// A lock on the row is an outage too: its holder ends.
func TestFinishWaitsForLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	c := b.own(r, content("1"))
	tx := b.begin()
	if _, err := tx.Exec(t.Context(), `SELECT FROM agent.idempotency_keys FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	finished := make(chan error, 1)
	go func() { finished <- b.keys.Finish(context.Background(), c, response(`1`)) }()
	b.blocked(1)
	if _, err := b.keys.Complete(t.Context(), c, response(`1`)); !errors.Is(err, idempotency.ErrLockTimeout) {
		t.Errorf("a single Complete answers %v, want ErrLockTimeout", err)
	}
	b.commit(tx)
	if err := <-finished; err != nil {
		t.Errorf("got %v", err)
	}
}

// An error that another attempt cannot change is returned at once.
func TestFinishPermanentError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.own(b.ref("tool.x", "k"), content("1"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := b.keys.Finish(ctx, c, idempotency.Answer{})
	if !errors.Is(err, idempotency.ErrEmptyAnswer) || strings.Contains(err.Error(), "in time") {
		t.Errorf("got %v, want ErrEmptyAnswer after one attempt", err)
	}
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

func TestMisuse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	if _, err := idempotency.NewService(nil, idempotency.Options{}); !errors.Is(err, idempotency.ErrPool) {
		t.Errorf("no pool: %v", err)
	}
	tx := b.begin()
	if _, err := idempotency.Do(ctx, b.keys.In(tx), task[int](b.ref("tool.x", "1")), answering(1)); !errors.Is(err, idempotency.ErrNested) {
		t.Errorf("Do in a transaction: %v", err)
	}
	inTx := func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) { return 1, nil }
	if _, err := idempotency.InTx(ctx, b.keys.In(tx), task[int](b.ref("tool.x", "1")), inTx); !errors.Is(err, idempotency.ErrNested) {
		t.Errorf("InTx in a transaction: %v", err)
	}
	for name, call := range map[string]func() error{
		"Do": func() error { _, err := idempotency.Do(ctx, b.keys, task[int](b.ref("tool.x", "2")), nil); return err },
		"DoTx": func() error {
			_, err := idempotency.DoTx(ctx, b.keys, tx, task[int](b.ref("tool.x", "2")), nil)
			return err
		},
		"InTx": func() error {
			_, err := idempotency.InTx(ctx, b.keys, task[int](b.ref("tool.x", "2")), nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, idempotency.ErrNoEffectGiven) {
			t.Errorf("%s without an effect: %v", name, err)
		}
	}
	effects, err := b.keys.NewEffects([]idempotency.Item{b.item(b.ref("webhook.nylas", "1"), "1")}, lease)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`INSERT INTO effects VALUES (1)`, `INSERT INTO effects SELECT id FROM claimed;`, ``} {
		var batch pgx.Batch
		if err := effects.Queue(&batch, sql); !errors.Is(err, idempotency.ErrEffect) || batch.Len() != 0 {
			t.Errorf("%q: %v, %d statements", sql, err, batch.Len())
		}
	}
	if n := b.rows(); n != 0 {
		t.Errorf("%d keys are claimed", n)
	}
}

// NewService refuses a mode in which a batch would fail later.
func TestExecModes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for mode, works := range map[string]bool{
		"cache_statement": true, "cache_describe": true, "describe_exec": true, "exec": false, "simple_protocol": false,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pool, err := pgxpool.New(t.Context(), b.url+"&default_query_exec_mode="+mode)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			keys, err := idempotency.NewService(pool, idempotency.Options{})
			if !works {
				if !errors.Is(err, idempotency.ErrPool) || !strings.Contains(err.Error(), "default_query_exec_mode") {
					t.Errorf("got %v, want it refused by name", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			one, many := b.ref("tool.x", mode), b.ref("tool.x", mode+" many")
			if _, err := idempotency.Do(t.Context(), keys, task[int](one), answering(1)); err != nil {
				t.Errorf("Do: %v", err)
			}
			all, err := keys.ClaimMany(t.Context(), []idempotency.Wanted{{Ref: one, Content: content("1")}, {Ref: many, Content: content("1")}}, lease)
			if err != nil || all[0].Kind != idempotency.Completed || all[1].Kind != idempotency.Claimed {
				t.Fatalf("ClaimMany: %+v, %v", all, err)
			}
			recorded, err := keys.CompleteMany(t.Context(), []idempotency.Ending{{Claim: all[1].Claim, Answer: response(`1`)}})
			if err != nil || !recorded[0] {
				t.Errorf("CompleteMany: %v, %v", recorded, err)
			}
			e, err := keys.NewEffects([]idempotency.Item{b.item(b.ref("webhook.nylas", mode), "1")}, lease)
			if err != nil {
				t.Fatal(err)
			}
			batch := &pgx.Batch{}
			if err := e.Queue(batch, `SELECT id FROM claimed`); err != nil {
				t.Fatal(err)
			}
			if err := pool.SendBatch(t.Context(), batch).Close(); err != nil || e.Verdicts()[0] != idempotency.Claimed {
				t.Errorf("Effects: %v, %v", e.Verdicts(), err)
			}
		})
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

func TestInTx(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE effects (id int)`)
	var failing atomic.Bool
	effect := func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (int, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO effects VALUES (1)`); err != nil {
			return 0, err
		}
		if failing.Load() {
			return 0, errors.New("no")
		}
		return 7, nil
	}
	failing.Store(true)
	tk := task[int](b.ref("tool.x", "k"))
	if _, err := idempotency.InTx(t.Context(), b.keys, tk, effect); err == nil || b.rows() != 0 {
		t.Errorf("an effect that fails: %v, %d keys", err, b.rows())
	}
	failing.Store(false)
	for attempt := range 2 {
		got, err := idempotency.InTx(t.Context(), b.keys, tk, effect)
		if err != nil || got.Value != 7 || got.Replayed != (attempt > 0) {
			t.Errorf("attempt %d: %+v, %v", attempt, got, err)
		}
	}
	if n := one[int](b, `SELECT count(*) FROM effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
	// A business failure is an answer, and commits.
	failure := &idempotency.Failure{Code: "sold_out"}
	tk.Ref = b.ref("tool.x", "failure")
	for attempt := range 2 {
		got, err := idempotency.InTx(t.Context(), b.keys, tk, func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) { return 0, failure })
		if !errors.As(err, &failure) || got.Replayed != (attempt > 0) {
			t.Errorf("a failure, attempt %d: %+v, %v", attempt, got, err)
		}
	}
}

// The COMMIT is answered, but the answer is lost.
func TestInTxLostAcknowledgement(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		b.exec(`CREATE TABLE effects (id int)`)
		calls := 0
		got, err := idempotency.InTx(b.Context(), b.keys, task[int](b.ref("tool.x", "k")), func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (int, error) {
			calls++
			_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, calls)
			if calls == 1 {
				cut() // the completion, which precedes the COMMIT, or its answer
			}
			return 7, err
		})
		if err != nil || got.Value != 7 {
			b.Errorf("%+v, %v", got, err)
		}
		if n := one[int](b, `SELECT count(*) FROM effects`); n != 1 {
			b.Errorf("%d effects after %d calls", n, calls)
		}
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	c := b.own(r, content("1"))
	if held, err := b.keys.Extend(t.Context(), c, time.Hour); err != nil || !held || c.Left() < 59*time.Minute || c.Left() > time.Hour {
		t.Errorf("%v, %v, %s left", held, err, c.Left())
	}
	b.pass(59 * time.Minute)
	b.want(b.claim(r, content("1")), idempotency.Processing)
	b.pass(time.Minute)
	b.own(r, content("1"))
	if held, err := b.keys.Extend(t.Context(), c, time.Hour); err != nil || held {
		t.Errorf("a claim that moved on: %v, %v", held, err)
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	b.own(r, content("1"))
	_, inFlight := idempotency.Do(t.Context(), b.keys, task[int](r), answering(1))
	if after, ok := idempotency.Retryable(inFlight); !ok || after <= lease/2 || after > lease {
		t.Errorf("in flight: %s, %v, want what is left of the lease", after, ok)
	}
	other := task[int](r)
	other.Content = content("2")
	_, mismatch := idempotency.Do(t.Context(), b.keys, other, answering(1))
	for name, err := range map[string]error{
		"nil": nil, "a mismatch": mismatch, "the effect's own": errors.New("no"), "a failure": &idempotency.Failure{Code: "x"},
		"an inner one's, as the effect's own": effectOf(b, inFlight),
		"unkept":                              &idempotency.UnkeptError{}, "no effect given": idempotency.ErrNoEffectGiven,
	} {
		if _, ok := idempotency.Retryable(err); ok {
			t.Errorf("%s is retryable", name)
		}
	}
}

// The classes of PostgreSQL's errors: https://www.postgresql.org/docs/15/errcodes-appendix.html
func TestRetryableByCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"08006": true, "25006": true, "40001": true, "40P01": true, "53100": true, "53300": true, "55P03": true,
		"57P01": true, "57014": true, "58030": true, "XX000": true,
		"22P02": false, "23505": false, "23514": false, "28P01": false, "42501": false, "42P01": false,
	} {
		if _, ok := idempotency.Retryable(&pgconn.PgError{Code: code}); ok != want {
			t.Errorf("%s is retryable: %v, want %v", code, ok, want)
		}
	}
}

// effectOf returns the error of a Do whose effect failed with err.
func effectOf(b *bundle, err error) error {
	b.Helper()
	_, failed := idempotency.Do(b.Context(), b.keys, task[int](b.ref("tool.x", "outer of "+err.Error()[:5])), func(context.Context, *idempotency.Claim) (int, error) {
		return 0, err
	})
	return failed
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
