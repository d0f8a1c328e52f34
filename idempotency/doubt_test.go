package idempotency_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// The effect's context ends with the lease, also after Extend.
func TestExtendMovesContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	short := task[int](b.ref("tool.x", "k"))
	short.Lease = 2 * time.Second
	got, err := idempotency.Do(t.Context(), b.keys, short, func(ctx context.Context, c *idempotency.Claim) (int, error) {
		first, _ := ctx.Deadline()
		if held, err := b.keys.Extend(ctx, c, lease); err != nil || !held {
			return 0, fmt.Errorf("extend: %v, %w", held, err)
		}
		if second, ok := ctx.Deadline(); !ok || second.Sub(first) < lease/2 {
			t.Errorf("the context's deadline moved by %s", second.Sub(first))
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(time.Until(first) + 200*time.Millisecond): // past the first lease
			return 1, nil
		}
	})
	if err != nil || got.Value != 1 || got.Unrecorded != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Only the error that the effect itself returns decides whether its transaction is committed.
func TestInTxCommitsOnlyCompleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE effects (id int)`)
	failure := &idempotency.Failure{Code: "sold_out"}
	for name, err := range map[string]error{
		"wrapped": fmt.Errorf("sell: %w", failure), "joined": errors.Join(errors.New("no"), failure), "marked": idempotency.NoEffect(failure),
	} {
		_, got := idempotency.InTx(t.Context(), b.keys, task[int](b.ref("tool.x", name)), func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (int, error) {
			_, failed := tx.Exec(ctx, `INSERT INTO effects VALUES (1)`)
			return 0, errors.Join(failed, err)
		})
		if got == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := one[int](b, `SELECT count(*) FROM effects`); n != 0 || b.rows() != 0 {
		t.Errorf("%d effects and %d keys of failures are committed", n, b.rows())
	}
}

// A final outcome is not asked for again.
func TestInTxKnownAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	claims := 0
	b.own(b.ref("tool.x", "k"), content("1"))
	b.keys = idempotency.MustService(b.pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) {
		if e.Op == idempotency.OpClaim {
			claims++
		}
	}})
	other := task[int](b.ref("tool.x", "k"))
	other.Content = content("2")
	for _, tk := range []idempotency.Task[int]{task[int](b.ref("tool.x", "k")), other} {
		claims = 0
		_, err := idempotency.InTx(t.Context(), b.keys, tk, func(context.Context, pgx.Tx, *idempotency.Claim) (int, error) { return 1, nil })
		if err == nil || claims != 1 {
			t.Errorf("%v after %d claims", err, claims)
		}
	}
}

// Code that runs after the effect may panic. The effect was made, and the key says so.
func TestPanicAfterEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	decodes := task[string](b.ref("tool.x", "decode"))
	decodes.Decode = func(idempotency.Answer) (string, error) { panic("a fault of the caller's") }
	overflows := task[string](b.ref("tool.x", "overflow"))
	overflows.Overflow = broken{}
	for name, tk := range map[string]idempotency.Task[string]{"Decode": decodes, "Overflow": overflows} {
		got, err := idempotency.Do(t.Context(), b.keys, tk, answering(strings.Repeat("x", idempotency.MaxResponse+1)))
		if name == "Decode" {
			got, err = idempotency.Do(t.Context(), b.keys, tk, answering("x"))
		}
		if err == nil && got.Unrecorded == nil {
			t.Errorf("%s: %+v", name, got)
		}
		b.want(b.read(tk.Ref, content("1")), idempotency.Completed)
	}
}

type broken struct{}

func (broken) Put(context.Context, *idempotency.Claim, []byte) (idempotency.ResourceRef, error) {
	panic("a fault of the caller's")
}
func (broken) Get(context.Context, idempotency.ResourceRef) ([]byte, error) { panic("unreachable") }

// A caller's value is never mistaken for one of our stubs.
func TestReservedAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, value := range []string{`{"idempotency:failure":{"code":"boo"}}`, `{"idempotency:overflow":true}`, `{"idempotency:unkept":{"reason":"unencodable"}}`} {
		tk := task[json.RawMessage](b.ref("tool.x", fmt.Sprint(i)))
		got, err := idempotency.Do(t.Context(), b.keys, tk, answering(json.RawMessage(value)))
		if err != nil || string(got.Value) != value || !errors.Is(got.Unrecorded, idempotency.ErrUnkept) {
			t.Errorf("%s: %+v, %v, want the value, unrecorded", value, got, err)
		}
		if _, err := idempotency.Do(t.Context(), b.keys, tk, answering(json.RawMessage(value))); !errors.Is(err, idempotency.ErrUnkept) {
			t.Errorf("%s replayed: %v, want ErrUnkept", value, err)
		}
	}
}

// Only the caller sees its own fault.
func TestPanicInFingerprint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	b.exec(`INSERT INTO agent.idempotency_keys (id, organization_id, scope, key, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)
		VALUES (gen_random_uuid(), $1, $2, $3, 'x9:`+strings.Repeat("0", 64)+`', gen_random_uuid(), now(), now() + interval '1 minute', now() + interval '1 day')`,
		r.Organization, r.Scope.String(), r.Key.String())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	_, _ = b.keys.Claim(ctx, r, panicking{}, lease)
}

type panicking struct{}

func (panicking) Current() idempotency.Hash             { return content("1").Current() }
func (panicking) Under(string) (idempotency.Hash, bool) { panic("a fault of the caller's") }

// Claims that have no connection yet end with their callers.
func TestClaimWithoutConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	single := open(t, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	keys := idempotency.MustService(single, idempotency.Options{})
	held, err := single.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := keys.Claim(ctx, b.ref("tool.x", fmt.Sprint(i)), content("1"), lease); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	held.Release()
	if _, err := keys.Claim(t.Context(), b.ref("tool.x", "honest"), content("1"), lease); err != nil {
		t.Error(err)
	}
	if n := b.rows(); n != 1 {
		t.Errorf("%d keys, want that of the caller that waited", n)
	}
}

// A reclaimed claim that is released after its retention keeps its row until it is swept, like any other.
func TestReleasePastRetention(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("webhook.nylas", "k")
	b.own(r, content("1"))
	b.pass(lease)
	c := b.own(r, content("1"))
	b.pass(25 * time.Hour)
	if !b.release(c) {
		t.Error("not released")
	}
}
