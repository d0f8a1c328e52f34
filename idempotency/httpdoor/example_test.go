package httpdoor_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/idempotency/httpdoor"
	"webhook-gateway/internal/pgtest"
)

// example is a fake testing.TB that gives an Example a migrated database.
type example struct{ ends []func() }

func (e *example) Helper()                           {}
func (e *example) Cleanup(end func())                { e.ends = append(e.ends, end) }
func (e *example) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func ExampleDoor_Wrap() {
	e := &example{}
	pool, err := pgxpool.New(context.Background(), pgtest.New(e))
	if err != nil {
		log.Fatal(err)
	}
	e.Cleanup(pool.Close)
	defer func() { e.ends[1](); e.ends[0]() }()

	door, err := httpdoor.New(httpdoor.Config{
		Keys:  idempotency.MustService(pool, idempotency.Options{}),
		Scope: idempotency.MustScope("http.orders.create"),
		Lease: 40 * time.Second,
		Authorize: func(_ http.ResponseWriter, r *http.Request) (httpdoor.Caller, bool) {
			subject, _, ok := r.BasicAuth() // your own check
			return httpdoor.Caller{Organization: organizationOf(subject), Principal: idempotency.Principal{Subject: subject}}, ok
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	orders := 0
	create := door.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "order ", orders)
	}))

	send := func(body string) {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
		r.SetBasicAuth("user:1", "")
		r.Header.Set("Idempotency-Key", "8e03978e")
		w := httptest.NewRecorder()
		create.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotent-Replayed") == "true")
	}
	send(`{"name":"paper"}`)
	send(`{"name":"paper"}`)
	// Output:
	// 201 order 1 false
	// 201 order 1 true
}

func organizationOf(string) uuid.UUID { return uuid.MustParse("0192c1f0-0000-7000-8000-00000000000a") }
