package httpdoor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
	"webhook-gateway/idempotency/httpdoor"
)

// No answer under a context that has ended says nothing about the operation.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]http.HandlerFunc{
		"it returns without a word": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it says 499":               func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done(); w.WriteHeader(499) },
		"it says 503":               func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done(); w.WriteHeader(503) },
	} {
		for _, end := range []string{"the client hangs up", "the lease ends"} {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				a := newAPI(t)
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				a.operation = func(w http.ResponseWriter, r *http.Request) {
					if end == "the client hangs up" {
						hangUp()
					}
					operation(w, r)
				}
				if end == "the lease ends" {
					a.door.Lease = 300 * time.Millisecond
				}
				a.send(request("k", func(r *http.Request) { *r = *r.WithContext(ctx) }))
				var status string
				if err := a.pool.QueryRow(t.Context(), `SELECT status FROM agent.idempotency_keys`).Scan(&status); err != nil || status != "processing" {
					t.Errorf("the key is %q, %v, want processing", status, err)
				}
			})
		}
	}
}

// passLeases lets the lease of every key pass.
func (a *api) passLeases() {
	a.Helper()
	if _, err := a.pool.Exec(a.Context(), `UPDATE agent.idempotency_keys SET lease_expires_at = claimed_at`); err != nil {
		a.Fatal(err)
	}
}

// It stays unknown whether the effect was made until the key is completed, whatever the attempts in between answer.
func TestReclaimedOnEveryAttempt(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var told []bool
	statuses := []int{502, 503, 429, 201}
	a.operation = func(w http.ResponseWriter, r *http.Request) {
		c, ok := httpdoor.ClaimFrom(r.Context())
		if !ok || c.Ref.Scope.String() != "http.orders.create" {
			t.Errorf("the claim is %+v, %v", c, ok)
			return
		}
		told = append(told, c.Reclaimed)
		w.WriteHeader(statuses[len(told)-1])
	}
	for i, status := range statuses {
		a.want(request("k"), status, int32(i+1))
		if i == 0 {
			a.want(request("k"), 409, 1)
			a.passLeases()
		}
	}
	if fmt.Sprint(told) != "[false true true true]" {
		t.Errorf("reclaimed: %v", told)
	}
	if _, ok := httpdoor.ClaimFrom(t.Context()); ok {
		t.Error("a claim from nowhere")
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]bool{"found": true, "not found": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.answers(504)
			a.door.Reconcile = func(w http.ResponseWriter, r *http.Request, c *idempotency.Claim) bool {
				if body, err := io.ReadAll(r.Body); !c.Reclaimed || err != nil || string(body) != `{"name":"paper"}` {
					t.Errorf("asked with %q, %v, reclaimed %v", body, err, c.Reclaimed)
				}
				w.Header().Set("X-Reconciled", "true")
				if found {
					w.WriteHeader(http.StatusAccepted)
				}
				return found
			}
			a.want(request("k"), 504, 1)
			a.passLeases()
			a.operation = func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"name":"paper"}` || w.Header().Get("X-Reconciled") != "" {
					t.Errorf("executed with %q, %v, %v", body, err, w.Header())
				}
				w.WriteHeader(201)
			}
			status, calls := 201, int32(2)
			if found {
				status, calls = 202, 1
			}
			a.want(request("k"), status, calls)
			a.want(request("k"), status, calls) // replayed
		})
	}
}

// A server that restarts while the answer is stored repeats no effect.
func TestAnswerOutlivesLock(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	answer := a.operation
	var tx pgx.Tx
	a.operation = func(w http.ResponseWriter, r *http.Request) {
		var err error
		if tx, err = a.pool.Begin(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(context.Background(), `SELECT FROM agent.idempotency_keys FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = tx.Rollback(context.Background()) }) // longer than one attempt waits
		answer(w, r)
	}
	a.want(request("k"), 201, 1)
	a.want(request("k"), 201, 1)
}

func TestReplayIsComplete(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("hello")) // to memory
	_ = z.Close()
	a.operation = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("X-Request-Cost", "7")
		w.Header().Set("Cache-Control", "private")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("Date", "Mon, 30 Nov 2026 00:00:00 GMT")
		_, _ = w.Write(packed.Bytes())
	}
	first, again := a.want(request("k"), 200, 1), a.want(request("k"), 200, 1)
	if !bytes.Equal(again.Body.Bytes(), packed.Bytes()) {
		t.Error("the body is another one")
	}
	for _, name := range []string{"Content-Encoding", "X-Request-Cost", "Cache-Control", "Content-Type"} {
		if got, want := again.Header().Get(name), first.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"Set-Cookie", "Date"} {
		if got := again.Header().Get(name); got != "" {
			t.Errorf("%s is replayed: %q", name, got)
		}
	}
	// Escaped as HTML it would be too long.
	html := strings.Repeat("<p>&</p>", 7000)
	a.operation = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(html)) }
	a.want(request("html"), 200, 2)
	if w := a.want(request("html"), 200, 2); w.Body.String() != html {
		t.Errorf("%d bytes are replayed, want %d", w.Body.Len(), len(html))
	}
}

func TestMultipartRetry(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	form := func(boundary, text string) func(*http.Request) {
		return func(r *http.Request) {
			var body bytes.Buffer
			m := multipart.NewWriter(&body)
			if err := m.SetBoundary(boundary); err != nil {
				t.Fatal(err)
			}
			_ = m.WriteField("name", text)
			part, _ := m.CreateFormFile("file", "a.txt")
			_, _ = part.Write([]byte("content"))
			_ = m.Close()
			*r = *withBody(r, body.String())
			r.Header.Set("Content-Type", m.FormDataContentType())
		}
	}
	a.want(request("k", form("one", "paper")), 201, 1)
	a.want(request("k", form("two", "paper")), 201, 1)
	a.want(request("k", form("one", "pens")), 422, 1)
	cut := func(r *http.Request) {
		form("one", "paper")(r)
		*r = *withBody(r, "--one\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\npap")
	}
	a.want(request("cut", cut), 201, 2)
	a.want(request("cut", cut), 201, 2)
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	whole := newAPI(t).door
	for name, change := range map[string]func(*httpdoor.Config){
		"Keys":      func(c *httpdoor.Config) { c.Keys = nil },
		"Scope":     func(c *httpdoor.Config) { c.Scope = idempotency.Scope{} },
		"Lease":     func(c *httpdoor.Config) { c.Lease = 0 },
		"Authorize": func(c *httpdoor.Config) { c.Authorize = nil },
		"MaxBody":   func(c *httpdoor.Config) { c.MaxBody = -1 },
	} {
		c := whole
		change(&c)
		if _, err := httpdoor.New(c); !errors.Is(err, httpdoor.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServerFault(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var logged bytes.Buffer
	a.door.Log = slog.New(slog.NewTextHandler(&logged, nil))
	read := func(r *http.Request) { _, _ = r.Body.Read(make([]byte, 5)) } // as a middleware above may
	if w := a.want(request("k", read), 500, 0); code(w) != "MISCONFIGURED" {
		t.Error(code(w))
	}
	a.door.Authorize = func(http.ResponseWriter, *http.Request) (httpdoor.Caller, bool) { return httpdoor.Caller{}, true }
	if w := a.want(request("k"), 500, 0); code(w) != "MISCONFIGURED" {
		t.Error(code(w))
	}
	if n := strings.Count(logged.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors are logged:\n%s", n, &logged)
	}
	if n := a.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// The effect consists of rows: they exist exactly if the answer does.
func TestWrapTx(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	if _, err := a.pool.Exec(t.Context(), `CREATE TABLE public.orders (id uuid)`); err != nil {
		t.Fatal(err)
	}
	status := http.StatusCreated
	handler := a.made().WrapTx(a.pool, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) {
		a.calls.Add(1)
		if _, err := tx.Exec(r.Context(), `INSERT INTO public.orders VALUES ($1)`, uuid.New()); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, strings.Repeat("x", 10))
	})
	orders := func() (n int) {
		if err := a.pool.QueryRow(t.Context(), `SELECT count(*) FROM public.orders`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	send := func(key string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request(key))
		return w.Code
	}
	for _, tt := range []struct {
		name, key string
		answers   int
		want      int
		calls     int32
		orders    int
	}{
		{"stored", "a", 201, 201, 1, 1},
		{"replayed", "a", 201, 201, 1, 1},
		{"without a key", "", 201, 201, 2, 2},
		{"an answer that is not stored", "b", 503, 503, 3, 2},
		{"an unknown one: a transaction leaves no doubt", "b", 500, 500, 4, 2},
		{"executed in the end", "b", 404, 404, 5, 3},
		{"and replayed", "b", 201, 404, 5, 3},
		{"without a key, and not stored", "", 503, 503, 6, 3},
	} {
		status = tt.answers
		if got := send(tt.key); got != tt.want || a.calls.Load() != tt.calls || orders() != tt.orders {
			t.Errorf("%s: answered %d after %d calls with %d orders, want %d, %d, %d", tt.name, got, a.calls.Load(), orders(), tt.want, tt.calls, tt.orders)
		}
	}
}
