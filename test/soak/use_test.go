package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

// uses returns the ways in which the plane is used. Each makes the effect of one key, or gets its answer. An empty
// answer means neither, which is not a fault.
func (w *world) uses() map[string]func(ctx context.Context, key string) (id string, err error) {
	return map[string]func(context.Context, string) (string, error){
		"do": w.do, "dotx": w.doTx, "intx": w.inTx, "door": w.door(w.wrapped), "door of rows": w.door(w.rows), "many": w.many,
	}
}

func (w *world) task(key string) idempotency.Task[string] {
	return idempotency.Task[string]{
		Ref:     idempotency.Ref{Organization: w.org, Scope: idempotency.MustScope("tool.soak"), Key: idempotency.MustKey(idempotency.NewKey(key))},
		Content: idempotency.Content([]byte(`{}`)), Lease: lease,
		Reconcile: func(ctx context.Context, _ *idempotency.Claim) (string, bool, error) { return w.find(ctx, key) },
	}
}

func (w *world) do(ctx context.Context, key string) (string, error) {
	r, err := idempotency.Do(ctx, w.keys, w.task(key), func(ctx context.Context, c *idempotency.Claim) (string, error) {
		id, err := w.send(ctx, key, c)
		if errors.Is(err, errBusy) {
			return "", idempotency.NoEffect(err)
		}
		return id, err
	})
	return w.given(r, err), nil
}

func (w *world) doTx(ctx context.Context, key string) (string, error) {
	var r idempotency.Result[string]
	err := pgx.BeginTxFunc(ctx, w.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		r, err = idempotency.DoTx(ctx, w.keys, tx, w.task(key), func(ctx context.Context, _ *idempotency.Claim) (string, error) {
			return insert(ctx, tx, key)
		})
		return err
	})
	return w.given(r, err), nil
}

func (w *world) inTx(ctx context.Context, key string) (string, error) {
	r, err := idempotency.InTx(ctx, w.keys, w.task(key), func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (string, error) {
		return insert(ctx, tx, key)
	})
	return w.given(r, err), nil
}

// given returns the answer of a call; empty if it has none.
func (w *world) given(r idempotency.Result[string], err error) string {
	if err != nil {
		return ""
	}
	if r.Replayed {
		w.replays.Add(1)
	}
	return r.Value
}

func (w *world) door(h http.Handler) func(context.Context, string) (string, error) {
	return func(ctx context.Context, key string) (string, error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/soak", strings.NewReader(`{}`))
		r.URL.RawQuery = "key=" + key
		r.Header.Set("Idempotency-Key", key)
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		switch got.Code {
		case http.StatusCreated:
			if got.Header().Get("Idempotent-Replayed") != "" {
				w.replays.Add(1)
			}
			return got.Body.String(), nil
		case http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable:
			return "", nil
		}
		return "", fmt.Errorf("the door answers %d: %s", got.Code, got.Body)
	}
}

// many claims a key together with two neighbours, and completes the keys that it has won in one call.
func (w *world) many(ctx context.Context, key string) (string, error) {
	name, number, _ := strings.Cut(key, "-")
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil {
		return "", err
	}
	names := []string{key}
	for _, next := range []int{n - 1, n - 2} {
		if next >= 0 {
			names = append(names, fmt.Sprint(name, "-", next))
		}
	}
	wanted := make([]idempotency.Wanted, len(names))
	for i, name := range names {
		t := w.task(name)
		wanted[i] = idempotency.Wanted{Ref: t.Ref, Content: t.Content}
	}
	outcomes, _ := w.keys.ClaimMany(ctx, wanted, lease) // the outcomes show how far it got
	var endings []idempotency.Ending
	given := make(map[string]string)
	for i, o := range outcomes {
		switch o.Kind {
		case idempotency.Claimed:
			id, err := w.effect(ctx, names[i], o.Claim)
			if err == nil {
				text, _ := json.Marshal(id) // a string
				endings = append(endings, idempotency.Ending{Claim: o.Claim, Answer: idempotency.Answer{Response: text}})
			}
		case idempotency.Completed:
			var id string
			if err := json.Unmarshal(o.Answer.Response, &id); err != nil {
				return "", fmt.Errorf("the answer of %s is %s", names[i], o.Answer.Response)
			}
			w.replays.Add(1)
			given[names[i]] = id
		}
	}
	if len(endings) > 0 {
		_, _ = w.keys.CompleteMany(ctx, endings) // keys that it could not complete are reclaimed
	}
	return given[key], nil
}

// effect makes the effect of one of several keys, or finds it.
func (w *world) effect(ctx context.Context, key string, c *idempotency.Claim) (string, error) {
	within, cancel := c.Within(ctx)
	defer cancel()
	if c.Reclaimed {
		if id, found, err := w.find(within, key); found || err != nil {
			return id, err
		}
	}
	id, err := w.send(within, key, c)
	if errors.Is(err, errBusy) {
		_, _ = w.keys.Release(ctx, c) // otherwise its lease ends the claim
	}
	return id, err
}

// one makes a call and checks its answer: it must be the id of the key's only effect.
func (w *world) one(ctx context.Context, use, key string, call func(context.Context, string) (string, error)) (answered bool, err error) {
	w.calls.Add(1)
	id, err := call(ctx, key)
	if err != nil || id == "" {
		return false, err
	}
	w.answers.Add(1)
	rows, err := w.vendor.Query(context.WithoutCancel(ctx), `SELECT id::text FROM effects WHERE key = $1`, key)
	if err != nil {
		return false, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return false, err
	}
	if len(ids) != 1 || ids[0] != id {
		return false, fmt.Errorf("%s: %s is answered %s, its effects are %v", use, key, id, ids)
	}
	return true, nil
}

// The keys of a use come one after the other, twenty a second, and are called for four seconds.
const (
	keysPerSecond = 20
	keysAtOnce    = 80
)

func keyOf(use string, n int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(use, " ", "_"), n)
}

// newest returns the number of the newest key.
func (w *world) newest() int { return int(time.Since(w.began).Seconds() * keysPerSecond) }

// callOn calls each use in turn until ctx ends. Some callers give up.
func (w *world) callOn(ctx context.Context) error {
	for ctx.Err() == nil {
		for use, call := range w.uses() {
			n := max(w.newest()-rand.IntN(keysAtOnce), 0)
			within, cancel := context.WithCancel(context.WithoutCancel(ctx))
			if rand.IntN(8) == 0 {
				time.AfterFunc(time.Duration(rand.IntN(8_000))*time.Microsecond, cancel)
			}
			_, err := w.one(within, use, keyOf(use, n), call)
			cancel()
			if err != nil {
				return err
			}
		}
	}
	return nil
}
