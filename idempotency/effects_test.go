package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/idempotency"
)

// effectSQL makes the effect of a claim: one row of a journal.
var effectSQL = fmt.Sprintf(`INSERT INTO journal (claim, note) SELECT d.claim, d.note
	FROM unnest($%d::uuid[], $%d::text[]) AS d(claim, note) JOIN claimed ON claimed.id = d.claim`,
	idempotency.EffectParam, idempotency.EffectParam+1)

func (b *bundle) journal() {
	b.Helper()
	b.exec(`CREATE TABLE journal (claim uuid, note text)`)
}

func (b *bundle) item(r idempotency.Ref, text string) idempotency.Item {
	b.Helper()
	who := idempotency.Mint()
	return idempotency.Item{
		Ref: r, Hash: content(text).Current(), ID: who.ID, Token: who.Token,
		Resource: idempotency.ResourceRef{Type: "journal", ID: who.ID.String()},
	}
}

// settle sends one batch in its own transaction.
func (b *bundle) settle(ctx context.Context, items []idempotency.Item) ([]idempotency.Kind, error) {
	e, err := b.keys.NewEffects(items, lease)
	if err != nil {
		return nil, err
	}
	var claims []uuid.UUID
	var notes []string
	for i, it := range items {
		claims, notes = append(claims, it.ID), append(notes, strconv.Itoa(i))
	}
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	batch.Queue(`SELECT set_config('lock_timeout', '2s', true)`)
	if err := e.Queue(batch, effectSQL, claims, notes); err != nil {
		return nil, err
	}
	batch.Queue(`COMMIT`)
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		_, _ = conn.Exec(context.Background(), `ROLLBACK`)
		return nil, err
	}
	return e.Verdicts(), nil
}

func (b *bundle) wantSettled(items []idempotency.Item, want ...idempotency.Kind) {
	b.Helper()
	got, err := b.settle(b.Context(), items)
	if err != nil {
		b.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("verdicts (-want +got):\n%s", diff)
	}
}

func (b *bundle) wantEffects(want int) {
	b.Helper()
	if got := one[int](b, `SELECT count(*) FROM journal`); got != want {
		b.Fatalf("%d effects, want %d", got, want)
	}
}

func TestEffectsInInputOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	a, c, z := b.ref("webhook.nylas", "a"), b.ref("webhook.slack", "c"), b.ref("webhook.nylas", "z")
	b.complete(b.own(c, content("1")), response(`1`))
	b.own(z, content("1"))
	items := []idempotency.Item{b.item(z, "1"), b.item(c, "1"), b.item(c, "other"), b.item(a, "1")}
	b.wantSettled(items, idempotency.Processing, idempotency.Completed, idempotency.Conflict, idempotency.Claimed)
	b.wantEffects(1)
	if o := b.read(a, content("1")); o.Kind != idempotency.Completed || o.Answer.Resource != items[3].Resource {
		t.Errorf("the claimed key is %+v, want completed with %v", o, items[3].Resource)
	}
}

func TestEffectsRepeatedKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	k, known := b.ref("webhook.nylas", "k"), b.ref("webhook.nylas", "known")
	b.complete(b.own(known, content("1")), response(`1`))
	raw, err := idempotency.ParseHash("r1:" + strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	first, otherMethod := b.item(k, "1"), b.item(k, "1")
	otherMethod.Hash = raw
	b.wantSettled([]idempotency.Item{
		first, b.item(k, "1"), b.item(k, "2"), otherMethod,
		b.item(known, "2"), b.item(known, "1"),
	},
		idempotency.Claimed, idempotency.Completed, idempotency.Conflict, idempotency.Unsettled,
		idempotency.Conflict, idempotency.Completed)
	b.wantEffects(1)
	if note := one[string](b, `SELECT note FROM journal`); note != "0" {
		t.Errorf("the effect is item %s, want the first in input order", note)
	}
}

func TestEffectsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	var items []idempotency.Item
	for i := range 20 {
		items = append(items, b.item(b.ref("webhook.nylas", strconv.Itoa(i)), "1"))
	}
	for range 3 {
		got, err := b.settle(b.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		for i, kind := range got {
			if kind != idempotency.Claimed {
				t.Errorf("item %d is %s, want claimed", i, kind)
			}
		}
	}
	b.wantEffects(20)
	// Another delivery with the same keys does not.
	for i := range items {
		items[i] = b.item(items[i].Ref, "1")
	}
	got, err := b.settle(b.Context(), items)
	if err != nil || got[0] != idempotency.Completed {
		t.Errorf("a duplicate is %v, %v, want completed", got[0], err)
	}
}

func TestEffectsUnsettled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	dead, forgotten, method := b.ref("webhook.nylas", "dead"), b.ref("webhook.nylas", "forgotten"), b.ref("webhook.nylas", "method")
	b.complete(b.own(forgotten, content("1")), response(`1`))
	b.pass(25 * time.Hour)
	b.own(dead, content("1"))
	b.pass(time.Minute)
	raw, _ := idempotency.ParseHash("r1:" + strings.Repeat("0", 64))
	b.own(method, raw)
	before := b.row(dead) + b.row(forgotten) + b.row(method)
	b.wantSettled([]idempotency.Item{b.item(dead, "1"), b.item(forgotten, "1"), b.item(method, "1"), b.item(dead, "2")},
		idempotency.Unsettled, idempotency.Unsettled, idempotency.Unsettled, idempotency.Conflict)
	b.wantEffects(0)
	if after := b.row(dead) + b.row(forgotten) + b.row(method); after != before {
		t.Errorf("rows changed:\n%s\n%s", before, after)
	}
}

func TestEffectsBadItem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := b.item(b.ref("webhook.nylas", "a"), "1")
	for name, spoil := range map[string]func(*idempotency.Item){
		"no organization": func(it *idempotency.Item) { it.Organization = uuid.Nil },
		"no scope":        func(it *idempotency.Item) { it.Scope = idempotency.Scope{} },
		"no key":          func(it *idempotency.Item) { it.Key = idempotency.Key{} },
		"no hash":         func(it *idempotency.Item) { it.Hash = idempotency.Hash{} },
		"no id":           func(it *idempotency.Item) { it.ID = uuid.Nil },
		"no token":        func(it *idempotency.Item) { it.Token = uuid.Nil },
		"no resource":     func(it *idempotency.Item) { it.Resource.ID = "" },
	} {
		bad := good
		spoil(&bad)
		_, err := b.keys.NewEffects([]idempotency.Item{good, good, bad}, lease)
		if err == nil || !strings.Contains(err.Error(), "item 2: ") {
			t.Errorf("%s: %v, want an error that names item 2", name, err)
		}
	}
	if _, err := b.keys.NewEffects([]idempotency.Item{good}, 0); !errors.Is(err, idempotency.ErrLease) {
		t.Errorf("no lease: %v", err)
	}
}

func TestEffectsIsolation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	it := b.item(b.ref("webhook.nylas", "a"), "1")
	other := b.item(b.ref("webhook.nylas", "b"), "1")
	b.complete(b.own(other.Ref, content("1")), response(`1`))
	tx := b.beginAs(pgx.RepeatableRead)
	for _, items := range [][]idempotency.Item{{it}, {it, other}} {
		e, err := b.keys.NewEffects(items, lease)
		if err != nil {
			t.Fatal(err)
		}
		batch := &pgx.Batch{}
		if err := e.Queue(batch, effectSQL, []uuid.UUID{it.ID}, []string{"x"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.SendBatch(t.Context(), batch).Close(); !errors.Is(err, idempotency.ErrIsolation) {
			t.Errorf("%d items: got %v, want ErrIsolation", len(items), err)
		}
	}
	b.commit(tx)
	b.wantEffects(0)
	if n := b.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestEffectsLockedKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	r := b.ref("webhook.nylas", "a")
	tx := b.begin()
	if o, err := b.keys.In(tx).Claim(t.Context(), r, content("1"), lease); err != nil || o.Kind != idempotency.Claimed {
		t.Fatal(o, err)
	}
	_, err := b.settle(t.Context(), []idempotency.Item{b.item(r, "1")})
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("got %v, want 55P03", err)
	}
}

func TestSettleAloneInTx(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	alone := func(it idempotency.Item, f idempotency.Fingerprint) (kind idempotency.Kind) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			keys := b.keys.In(tx)
			o, err := keys.ClaimAs(t.Context(), idempotency.Identity{ID: it.ID, Token: it.Token}, it.Ref, f, lease)
			if kind = o.Kind; o.Own {
				kind = idempotency.Claimed
			}
			if err != nil || o.Claim == nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), `INSERT INTO journal VALUES ($1, '')`, it.ID); err != nil {
				return err
			}
			_, err = keys.Complete(t.Context(), o.Claim, idempotency.Answer{Resource: it.Resource})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return kind
	}
	want := func(got, want idempotency.Kind, effects int) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		b.wantEffects(effects)
	}
	r := b.ref("webhook.nylas", "a")
	it := b.item(r, "1")
	want(alone(it, content("1")), idempotency.Claimed, 1)
	want(alone(it, content("1")), idempotency.Claimed, 1) // a repeat after an uncertain commit
	want(alone(b.item(r, "1"), content("1")), idempotency.Completed, 1)
	want(alone(b.item(r, "2"), content("2")), idempotency.Conflict, 1)
	b.pass(25 * time.Hour)
	want(alone(b.item(r, "2"), content("2")), idempotency.Claimed, 2) // past its retention

	dead := b.ref("webhook.nylas", "dead")
	b.own(dead, content("1"))
	want(alone(b.item(dead, "1"), content("1")), idempotency.Processing, 2)
	b.pass(time.Minute)
	want(alone(b.item(dead, "1"), content("1")), idempotency.Claimed, 3)
}
