package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pgtest"
)

// example is a fake testing.TB that gives an Example a migrated database.
type example struct{ ends []func() }

func (e *example) Helper()                           {}
func (e *example) Cleanup(end func())                { e.ends = append(e.ends, end) }
func (e *example) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func examplePool(setup string) (pool *pgxpool.Pool, end func()) {
	e := &example{}
	pool = must(pgxpool.New(context.Background(), pgtest.New(e)))
	e.Cleanup(pool.Close)
	must(pool.Exec(context.Background(), setup))
	return pool, func() {
		for i := len(e.ends) - 1; i >= 0; i-- {
			e.ends[i]()
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func organization() uuid.UUID { return uuid.MustParse("0192c1f0-0000-7000-8000-00000000000a") }

// A vendor delivers at least once. Whatever the outcome, the answer is an acknowledgement, because the delivery has not
// failed. The effect is a row, so claim, effect and completion share one transaction, and no delivery is acknowledged
// before it is committed.
func Example_webhookDoor() {
	pool, end := examplePool(`CREATE TABLE inbox (id uuid PRIMARY KEY, body text)`)
	defer end()
	ctx := context.Background()
	keys := idempotency.MustService(pool, idempotency.Options{})
	scope := must(idempotency.NewScopeFor("webhook.nylas", 24*time.Hour))
	job := uuid.MustParse("0192c1f0-0000-7000-8000-000000000001")

	receive := func(deliveryID, body string) (answer string, err error) {
		who := idempotency.Mint() // once per delivery received, the same if the transaction is repeated
		ref := idempotency.Ref{Organization: organization(), Scope: scope, Key: must(idempotency.DeliveryKey(job, deliveryID))}
		content := idempotency.Content([]byte(body), "webhook_delivery_attempt") // what the vendor changes on a retry
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			in := keys.In(tx)
			o, err := in.ClaimAs(ctx, who, ref, content, 30*time.Second)
			if err != nil {
				return err // nothing is known: settle it again, or answer 503
			}
			switch {
			case o.Kind == idempotency.Claimed:
				if _, err := tx.Exec(ctx, `INSERT INTO inbox VALUES ($1, $2)`, who.ID, body); err != nil {
					return err
				}
				answer = "200, kept"
				_, err = in.Complete(ctx, o.Claim, idempotency.Answer{Resource: idempotency.ResourceRef{Type: "delivery", ID: who.ID.String()}})
			case o.Own:
				answer = "200, kept before"
			case o.Kind == idempotency.Conflict:
				answer = "200, dropped: hash_mismatch"
			default:
				answer = "200, dropped: duplicate"
			}
			return err
		})
		return answer, err
	}

	fmt.Println(receive("evt_1", `{"id":"evt_1","webhook_delivery_attempt":1}`))
	fmt.Println(receive("evt_1", `{"id":"evt_1","webhook_delivery_attempt":2}`))
	fmt.Println(receive("evt_1", `{"id":"evt_1","forged":true}`))
	// Output:
	// 200, kept <nil>
	// 200, dropped: duplicate <nil>
	// 200, dropped: hash_mismatch <nil>
}

// A vendor that takes idempotency keys closes the gap between its effect and our record of it: it gets the same key, so
// an effect that is repeated after a crash happens once.
func Example_vendorWithKeys() {
	pool, end := examplePool(``)
	defer end()
	keys := idempotency.MustService(pool, idempotency.Options{})
	payments := map[string]string{} // the vendor's ledger, by key
	pay := func(key string) string {
		if payments[key] == "" {
			payments[key] = fmt.Sprint("payment ", len(payments)+1)
		}
		return payments[key]
	}

	refund := func(job string, step int64, cents string) {
		payment, err := idempotency.Do(context.Background(), keys, idempotency.Task[string]{
			Ref: idempotency.Ref{
				Organization: organization(),
				Scope:        must(idempotency.NewScope("tool.refund")),
				Key:          must(idempotency.ToolKey(job, step, "refund")),
			},
			Content: idempotency.Content([]byte(`{"cents":` + cents + `}`)),
			Lease:   40 * time.Second, // the tool's timeout plus a margin
		}, func(_ context.Context, c *idempotency.Claim) (string, error) {
			return pay(c.Ref.Key.String()), nil
		})
		switch {
		case errors.Is(err, idempotency.ErrMismatch):
			fmt.Println("KEY_MISMATCH: never repeat, alert")
		case errors.Is(err, idempotency.ErrInFlight), errors.Is(err, idempotency.ErrLockTimeout):
			fmt.Println("raise: the orchestrator repeats the step later")
		case err != nil:
			fmt.Println("raise:", err)
		default:
			fmt.Println(payment.Value, "replayed:", payment.Replayed)
		}
	}

	refund("job_17", 3, "1999")
	refund("job_17", 3, "1999") // the worker retries
	refund("job_17", 3, "2000") // the model changed its mind within the step
	refund("job_17", 4, "1999") // a second decision is another step
	// Output:
	// payment 1 replayed: false
	// payment 1 replayed: true
	// KEY_MISMATCH: never repeat, alert
	// payment 2 replayed: false
}

// A vendor that takes no keys may make an effect twice. So the worker that reclaims a dead worker's claim first looks
// whether the effect was made.
func Example_vendorWithoutKeys() {
	pool, end := examplePool(``)
	defer end()
	ctx := context.Background()
	keys := idempotency.MustService(pool, idempotency.Options{})
	var sent []string // the vendor's outbox

	send := idempotency.Task[string]{
		Ref: idempotency.Ref{
			Organization: organization(),
			Scope:        must(idempotency.NewScope("tool.email.send")),
			Key:          must(idempotency.ToolKey("job_17", 5, "send")),
		},
		Content: idempotency.Content([]byte(`{"to":"team@example.com"}`)),
		Lease:   time.Minute,
		Reconcile: func(_ context.Context, c *idempotency.Claim) (string, bool, error) {
			for _, id := range sent {
				if id == c.Ref.Key.String() {
					return "found at the vendor", true, nil
				}
			}
			return "", false, nil
		},
	}

	// A worker sends the mail and dies before it can record it.
	o := must(keys.Claim(ctx, send.Ref, send.Content, send.Lease))
	sent = append(sent, o.Claim.Ref.Key.String())
	must(pool.Exec(ctx, `UPDATE agent.idempotency_keys SET lease_expires_at = claimed_at`)) // a minute later

	result, err := idempotency.Do(ctx, keys, send, func(_ context.Context, c *idempotency.Claim) (string, error) {
		sent = append(sent, c.Ref.Key.String())
		return "sent", nil
	})
	fmt.Println(result.Value, err, "mails:", len(sent))
	// Output:
	// found at the vendor <nil> mails: 1
}

// An effect that is a row needs no lease and no reconciliation: claim, effect and completion commit together or not at
// all.
func Example_rowEffect() {
	pool, end := examplePool(`CREATE TABLE orders (name text)`)
	defer end()
	ctx := context.Background()
	keys := idempotency.MustService(pool, idempotency.Options{})

	create := func(commit bool) {
		var order idempotency.Result[string]
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			order, err = idempotency.DoTx(ctx, keys, tx, idempotency.Task[string]{
				Ref: idempotency.Ref{
					Organization: organization(),
					Scope:        must(idempotency.NewScope("http.orders.create")),
					Key:          must(idempotency.ClientKey(idempotency.Principal{Subject: "user:1"}, "8e03978e")),
				},
				Content: idempotency.Content([]byte(`{"name":"paper"}`)),
				Lease:   30 * time.Second,
			}, func(ctx context.Context, _ *idempotency.Claim) (string, error) {
				_, err := tx.Exec(ctx, `INSERT INTO orders VALUES ('paper')`)
				return "order 1", err
			})
			if err == nil && !commit {
				err = errors.New("the process was killed")
			}
			return err
		})
		rows := must(pgx.CollectExactlyOneRow(must(pool.Query(ctx, `SELECT count(*) FROM orders`)), pgx.RowTo[int]))
		if err != nil {
			fmt.Println(err, "orders:", rows)
			return
		}
		fmt.Println(order.Value, "replayed:", order.Replayed, "orders:", rows)
	}

	create(false)
	create(true)
	create(true)
	// Output:
	// the process was killed orders: 0
	// order 1 replayed: false orders: 1
	// order 1 replayed: true orders: 1
}

// One statement makes the claims of a batch, together with the rows that are their effect.
func ExampleService_NewEffects() {
	pool, end := examplePool(`CREATE TABLE inbox (id uuid PRIMARY KEY, body text)`)
	defer end()
	ctx := context.Background()
	keys := idempotency.MustService(pool, idempotency.Options{})
	scope := must(idempotency.NewScopeFor("webhook.slack", 48*time.Hour))

	var items []idempotency.Item
	var ids []uuid.UUID
	var bodies []string
	for _, id := range []string{"Ev1", "Ev2", "Ev1"} {
		who := idempotency.Mint()
		body := `{"event_id":"` + id + `"}`
		items = append(items, idempotency.Item{
			Ref:      idempotency.Ref{Organization: organization(), Scope: scope, Key: must(idempotency.DeliveryKey(organization(), id))},
			Hash:     idempotency.Content([]byte(body)).Current(),
			ID:       who.ID,
			Token:    who.Token,
			Resource: idempotency.ResourceRef{Type: "delivery", ID: who.ID.String()},
		})
		ids, bodies = append(ids, who.ID), append(bodies, body)
	}
	effects := must(keys.NewEffects(items, 30*time.Second))

	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	batch.Queue(`SELECT set_config('lock_timeout', '200ms', true)`)
	err := effects.Queue(batch, fmt.Sprintf(`INSERT INTO inbox (id, body)
		SELECT d.id, d.body FROM unnest($%d::uuid[], $%d::text[]) AS d(id, body) JOIN claimed ON claimed.id = d.id`,
		idempotency.EffectParam, idempotency.EffectParam+1), ids, bodies)
	if err != nil {
		log.Fatal(err)
	}
	batch.Queue(`COMMIT`)
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(effects.Verdicts())
	// Output:
	// [claimed claimed completed]
}
