package idempotency_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

// refundTask is step 3 of job_17.
func refundTask[T any]() idempotency.Task[T] {
	return idempotency.Task[T]{
		Ref: idempotency.Ref{
			Organization: organization(),
			Scope:        idempotency.MustScope("tool.refund"),
			Key:          idempotency.MustKey(idempotency.ToolKey("job_17", 3, "refund")),
		},
		Content: idempotency.Content([]byte(`{"cents":1999}`)),
		Lease:   40 * time.Second,
	}
}

// Rows in the same database need no reconciliation: claim, effect and answer are one transaction.
func ExampleInTx() {
	pool, end := examplePool(`CREATE TABLE orders (number bigserial, name text)`)
	defer end()
	ctx, keys := context.Background(), idempotency.MustService(pool, idempotency.Options{})
	for range 2 {
		order, err := idempotency.InTx(ctx, keys, refundTask[int64](),
			func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (number int64, err error) {
				err = tx.QueryRow(ctx, `INSERT INTO orders (name) VALUES ('paper') RETURNING number`).Scan(&number)
				return number, err
			})
		fmt.Println("order", order.Value, "replayed:", order.Replayed, err)
	}
	// Output:
	// order 1 replayed: false <nil>
	// order 1 replayed: true <nil>
}

// A business failure is an answer: it is stored, and every later call gets an equal one.
func ExampleFailure() {
	pool, end := examplePool(``)
	defer end()
	keys := idempotency.MustService(pool, idempotency.Options{})
	calls := 0
	for range 2 {
		_, err := idempotency.Do(context.Background(), keys, refundTask[string](),
			func(context.Context, *idempotency.Claim) (string, error) {
				calls++
				return "", &idempotency.Failure{Code: "declined", Message: "the card has expired"}
			})
		var failure *idempotency.Failure
		fmt.Println(errors.As(err, &failure), err, "calls:", calls)
	}
	// Output:
	// true declined: the card has expired calls: 1
	// true declined: the card has expired calls: 1
}

// Answers of more than MaxResponse bytes go to a bucket, and the row keeps their reference.
func ExampleOverflow() {
	pool, end := examplePool(``)
	defer end()
	keys := idempotency.MustService(pool, idempotency.Options{})
	report := refundTask[string]()
	report.Overflow = bucket{} // by the claim's id
	for range 2 {
		got, err := idempotency.Do(context.Background(), keys, report,
			func(context.Context, *idempotency.Claim) (string, error) { return strings.Repeat("line ", 20_000), nil })
		fmt.Println(len(got.Value), "bytes, replayed:", got.Replayed, got.Unrecorded, err)
	}
	// Output:
	// 100000 bytes, replayed: false <nil> <nil>
	// 100000 bytes, replayed: true <nil> <nil>
}

// Ask a policy checkpoint only if the effect has yet to be made.
func ExamplePeek() {
	pool, end := examplePool(``)
	defer end()
	ctx, keys := context.Background(), idempotency.MustService(pool, idempotency.Options{})
	approve := func() { fmt.Println("asked for approval") }

	refund := func() (idempotency.Result[string], error) {
		known, found, err := idempotency.Peek(ctx, keys, refundTask[string]())
		if err != nil || found {
			return known, err
		}
		approve()
		return idempotency.Do(ctx, keys, refundTask[string](), func(context.Context, *idempotency.Claim) (string, error) { return "rf_1", nil })
	}
	for range 2 {
		got, err := refund()
		fmt.Println(got.Value, "replayed:", got.Replayed, err)
	}
	// Output:
	// asked for approval
	// rf_1 replayed: false <nil>
	// rf_1 replayed: true <nil>
}

// An orchestrator retries when Retryable says so, and must still retry when a dead worker's lease has passed.
func ExampleRetryable() {
	pool, end := examplePool(``)
	defer end()
	ctx, keys := context.Background(), idempotency.MustService(pool, idempotency.Options{})
	refund := refundTask[string]()
	must(keys.Claim(ctx, refund.Ref, refund.Content, refund.Lease)) // another worker holds the key

	_, err := idempotency.Do(ctx, keys, refund, func(context.Context, *idempotency.Claim) (string, error) { return "rf_1", nil })
	after, again := idempotency.Retryable(err)
	fmt.Println("again:", again, "within the lease:", after > 0 && after <= refund.Lease)

	schedule := idempotency.RetrySchedule{time.Second, 5 * time.Second, 25 * time.Second}
	fmt.Println(schedule.Outlasts(refund.Lease))
	// Output:
	// again: true within the lease: true
	// idempotency: the lease outlives the retries: the last of 4 attempts may come 31s after the first, the lease is 40s; retry for longer or lease for less
}

// Long work extends its lease step by step. The effect's own context ends with the first lease, so each step takes a
// new one from the claim.
func ExampleService_Extend() {
	pool, end := examplePool(``)
	defer end()
	ctx, keys := context.Background(), idempotency.MustService(pool, idempotency.Options{})
	export := refundTask[int]()
	got, err := idempotency.Do(ctx, keys, export, func(ctx context.Context, c *idempotency.Claim) (pages int, err error) {
		for pages < 3 {
			held, err := keys.Extend(ctx, c, export.Lease)
			if err != nil || !held {
				return 0, errors.Join(errors.New("another worker may have the key"), err)
			}
			pages++ // written under ctx
		}
		return pages, nil
	})
	fmt.Println(got.Value, "pages", err)
	// Output:
	// 3 pages <nil>
}

// A type that changes keeps reading its old answers. An input with a new field has the same hash as before while the
// field has its old meaning.
func Example_evolvingTypes() {
	type receipt struct {
		Refund string `json:"refund_id"`
		Before string `json:"id,omitempty"` // the old name of refund_id; read it for the scope's retention
	}
	decode := func(a idempotency.Answer) (r receipt, err error) { // a Task's Decode
		err = json.Unmarshal(a.Response, &r)
		r.Refund = cmp.Or(r.Refund, r.Before)
		return r, err
	}
	stored := idempotency.Answer{Response: []byte(`{"id":"rf_1"}`)}
	fmt.Println(must(decode(stored)).Refund)

	type order struct {
		Cents    int    `json:"cents"`
		Currency string `json:"currency,omitempty"` // new; empty means the currency of all older orders
	}
	before := idempotency.Content([]byte(`{"cents":1999}`))
	after := idempotency.Content(must(json.Marshal(order{Cents: 1999})))
	fmt.Println(after.Current() == before.Current())
	// Output:
	// rf_1
	// true
}
