package httpdoor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/idempotency/httpdoor"
	"webhook-gateway/internal/pgtest"
)

const lease = 30 * time.Second

// api is an operation behind a door, with a count of its executions.
type api struct {
	*testing.T
	pool  *pgxpool.Pool
	door  httpdoor.Config
	calls atomic.Int32
	// operation answers; by default 201 with a body that says which call it was.
	operation http.HandlerFunc
}

func newAPI(t *testing.T) *api {
	t.Helper()
	pool := pgtest.Pool(t)
	scope, err := idempotency.NewScope("http.orders.create")
	if err != nil {
		t.Fatal(err)
	}
	org := uuid.New()
	a := &api{T: t, pool: pool}
	a.operation = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("Link", "</a>")
		w.Header().Add("Link", "</b>")
		w.Header().Set("Set-Cookie", "session=secret")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"call": %d}`, a.calls.Load())
	}
	a.door = httpdoor.Config{
		Keys: idempotency.MustService(pool, idempotency.Options{}), Scope: scope, Lease: lease, Help: "https://example.com/keys",
		Authorize: func(w http.ResponseWriter, r *http.Request) (httpdoor.Caller, bool) {
			user := r.Header.Get("Authorization")
			if user == "revoked" {
				w.WriteHeader(http.StatusForbidden)
				return httpdoor.Caller{}, false
			}
			return httpdoor.Caller{Organization: org, Principal: idempotency.Principal{Subject: user}}, true
		},
	}
	return a
}

// request is one call of the API; change may alter it.
func request(key string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders?a=1&b=2", strings.NewReader(`{"name":"paper"}`))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set("Authorization", "user:1")
	for _, f := range change {
		f(r)
	}
	return r
}

func (a *api) made() *httpdoor.Door {
	a.Helper()
	door, err := httpdoor.New(a.door)
	if err != nil {
		a.Fatal(err)
	}
	return door
}

func (a *api) send(r *http.Request) *httptest.ResponseRecorder {
	a.Helper()
	w := httptest.NewRecorder()
	a.made().Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.calls.Add(1)
		a.operation(w, r)
	})).ServeHTTP(w, r)
	return w
}

// want sends a request and expects a status and the number of executions so far.
func (a *api) want(r *http.Request, status int, calls int32) *httptest.ResponseRecorder {
	a.Helper()
	w := a.send(r)
	if w.Code != status || a.calls.Load() != calls {
		a.Fatalf("answered %d after %d calls, want %d after %d: %.200s", w.Code, a.calls.Load(), status, calls, w.Body)
	}
	return w
}

func (a *api) answers(status int) {
	a.operation = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func code(w *httptest.ResponseRecorder) string {
	var p struct {
		Status int
		Code   string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" || p.Status != w.Code {
		return fmt.Sprintf("no problem document: %s %v", w.Body, err)
	}
	return p.Code
}

func TestReplay(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	first := a.want(request("k"), 201, 1)
	if first.Header().Get("Idempotent-Replayed") != "" || first.Header().Get("Set-Cookie") == "" {
		t.Errorf("the first answer has %v", first.Header())
	}
	for range 2 {
		again := a.want(request("k"), 201, 1)
		if again.Body.String() != first.Body.String() {
			t.Errorf("the body is %s, want %s", again.Body, first.Body)
		}
		want := first.Header().Clone()
		want.Del("Set-Cookie")
		want.Set("Idempotent-Replayed", "true")
		if diff := cmp.Diff(want, again.Header()); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	}
}

func TestReplayAnyBytes(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for i, body := range []string{"", "\x00\xff\xfe", "text\u2028", `{"a": "\u0000"}`, strings.Repeat("x", 40_000), strings.Repeat("\xff", 40_000)} {
		a.operation = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
		first := a.want(request(strconv.Itoa(i)), 200, int32(i+1))
		again := a.want(request(strconv.Itoa(i)), 200, int32(i+1))
		if first.Body.String() != body || again.Body.String() != body || again.Header().Get("Content-Type") != first.Header().Get("Content-Type") {
			t.Errorf("body %d: %.20q then %.20q (%s)", i, first.Body, again.Body, again.Header().Get("Content-Type"))
		}
	}
}

// The operation was executed. A repeat learns that its answer is gone, and never gets an empty one.
func TestTooLongAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for i, body := range []string{strings.Repeat("x", 200_000), strings.Repeat("\xff", 60_000), strings.Repeat("\x01", 60_000)} {
		a.operation = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/orders/1")
			w.WriteHeader(http.StatusCreated)
			for at := 0; at < len(body); at += 1000 {
				_, _ = w.Write([]byte(body[at : at+1000]))
			}
		}
		if w := a.want(request(strconv.Itoa(i)), 201, int32(i+1)); w.Body.String() != body {
			t.Errorf("body %d: %d bytes reached the client, want %d", i, w.Body.Len(), len(body))
		}
		w := a.want(request(strconv.Itoa(i)), 410, int32(i+1))
		if code(w) != "ANSWER_NOT_KEPT" || !strings.Contains(w.Body.String(), "status 201") || w.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("body %d is replayed as %s with %v", i, w.Body, w.Header())
		}
	}
}

func (a *api) rows() (n int) {
	a.Helper()
	if err := a.pool.QueryRow(context.Background(), `SELECT count(*) FROM agent.idempotency_keys`).Scan(&n); err != nil {
		a.Fatal(err)
	}
	return n
}

func TestRepeatInFlight(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	inside, leave, finished := make(chan struct{}), make(chan struct{}), make(chan int)
	answer := a.operation
	a.operation = func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-leave
		answer(w, r)
	}
	go func() { finished <- a.send(request("k")).Code }()
	<-inside
	for range 3 {
		w := a.want(request("k"), 409, 1)
		if after, err := strconv.Atoi(w.Header().Get("Retry-After")); code(w) != "IN_FLIGHT" || err != nil || after < 1 || after > 30 {
			t.Errorf("%s, Retry-After %q", code(w), w.Header().Get("Retry-After"))
		}
	}
	close(leave)
	if status := <-finished; status != 201 {
		t.Errorf("the first is answered %d", status)
	}
	a.want(request("k"), 201, 1)
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(request("k"), 201, 1)
	for name, change := range map[string]func(*http.Request){
		"body":   func(r *http.Request) { *r = *withBody(r, `{"name":"pens"}`) },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a=1" },
		"path":   func(r *http.Request) { r.URL.Path = "/invoices" },
		"method": func(r *http.Request) { r.Method = http.MethodPut },
	} {
		if w := a.want(request("k", change), 422, 1); code(w) != "KEY_MISMATCH" {
			t.Errorf("%s: %s", name, code(w))
		}
	}
	for name, change := range map[string]func(*http.Request){
		"blanks":           func(r *http.Request) { *r = *withBody(r, `{ "name": "paper" }`) },
		"order of a query": func(r *http.Request) { r.URL.RawQuery = "b=2&a=1" },
		"other headers":    func(r *http.Request) { r.Header.Set("Traceparent", "00-1") },
	} {
		if w := a.send(request("k", change)); w.Code != 201 || a.calls.Load() != 1 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

func withBody(r *http.Request, body string) *http.Request {
	other := httptest.NewRequest(r.Method, r.URL.String(), strings.NewReader(body))
	other.Header = r.Header
	return other
}

func TestCallersAreSeparate(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for i, user := range []string{"user:1", "user:2", ""} {
		as := func(r *http.Request) { r.Header.Set("Authorization", user) }
		a.want(request("k", as), 201, int32(i+1))
		a.want(request("k", as), 201, int32(i+1))
	}
}

func TestAuthorizeBeforeReplay(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(request("k"), 201, 1)
	if w := a.want(request("k", func(r *http.Request) { r.Header.Set("Authorization", "revoked") }), 403, 1); w.Body.Len() != 0 {
		t.Errorf("a revoked caller is given %s", w.Body)
	}
}

func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.pool.Close()
	if w := a.want(request("k"), 503, 0); code(w) != "UNAVAILABLE" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q", code(w), w.Header().Get("Retry-After"))
	}
}

func TestLockedKeyIsInFlight(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(request("k"), 201, 1)
	tx, err := a.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), `DELETE FROM agent.idempotency_keys`); err != nil {
		t.Fatal(err)
	}
	if w := a.want(request("k"), 409, 1); code(w) != "IN_FLIGHT" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%s, Retry-After %q", code(w), w.Header().Get("Retry-After"))
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := a.want(request("k"), 201, 1); w.Header().Get("Idempotent-Replayed") == "" {
		t.Error("the answer is not replayed")
	}
}

func TestInvalidRecord(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.want(request("k"), 201, 1)
	for _, text := range []string{`{"idempotency:unkept":{}}`, `{"status":0}`, `[]`} {
		if _, err := a.pool.Exec(t.Context(), `UPDATE agent.idempotency_keys SET response = $1::text::json`, text); err != nil {
			t.Fatal(err)
		}
		if w := a.want(request("k"), 410, 1); code(w) != "ANSWER_NOT_KEPT" {
			t.Errorf("%s: %s", text, code(w))
		}
	}
}
