package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

// refunds is a writing tool: it refunds some cents in a step of a job. What the model thought on its way is not part
// of the key.
type refunds struct {
	keys         *idempotency.Service
	organization uuid.UUID
	made         *downstream
}

func (r *refunds) refund(job string, step int64, cents int, _ string) (idempotency.Result[string], error) {
	scope, err := idempotency.NewScope("tool.refund.create")
	if err != nil {
		return idempotency.Result[string]{}, err
	}
	key, err := idempotency.ToolKey(job, step, "refund")
	if err != nil {
		return idempotency.Result[string]{}, err
	}
	t := idempotency.Task[string]{
		Ref:     idempotency.Ref{Organization: r.organization, Scope: scope, Key: key},
		Content: idempotency.Content(fmt.Appendf(nil, `{"cents":%d}`, cents)), Lease: time.Minute,
	}
	return idempotency.Do(context.Background(), r.keys, t, func(_ context.Context, c *idempotency.Claim) (string, error) {
		return r.made.call(c.Ref.Key.String()), nil
	})
}

func newRefunds(t *testing.T, url string, organization uuid.UUID) *refunds {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &refunds{keys: idempotency.MustService(pool, idempotency.Options{}), organization: organization, made: newDownstream()}
}

func TestToolReplaysByStep(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := server.URL(pgtest.Database)
	r := newRefunds(t, url, uuid.New())
	var got []idempotency.Result[string]
	for _, call := range []struct {
		job     string
		step    int64
		thought string
	}{
		{"job_17", 3, "the customer is right"},
		{"job_17", 3, "let me try that again, to be safe"}, // the same step after another thought
		{"job_17", 4, "and the second item too"},           // another step is another refund
		{"job_18", 3, ""},
		{"job_17", 3, ""},
	} {
		done, err := r.refund(call.job, call.step, 1999, call.thought)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, done)
	}
	want := []idempotency.Result[string]{
		{Value: "job_17:3:refund#1"}, {Value: "job_17:3:refund#1", Replayed: true}, {Value: "job_17:4:refund#1"}, {Value: "job_18:3:refund#1"},
		{Value: "job_17:3:refund#1", Replayed: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var mismatch *idempotency.MismatchError
	if _, err := r.refund("job_17", 3, 2000, ""); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "KEY_MISMATCH") {
		t.Errorf("2000 cents in the place of 1999: %v", err)
	}
	if calls, keys := r.made.total(); calls != 3 || keys != 3 {
		t.Errorf("%d refunds under %d keys, want 3 under 3", calls, keys)
	}

	// The process and its database are killed; another process asks again.
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	later := newRefunds(t, server.URL(pgtest.Database), r.organization)
	if done, err := later.refund("job_17", 3, 1999, "where was I?"); err != nil || done.Value != "job_17:3:refund#1" || !done.Replayed {
		t.Errorf("after the restart: %+v, %v", done, err)
	}
	if calls, _ := later.made.total(); calls != 0 {
		t.Errorf("%d refunds after the restart", calls)
	}
}

// orders is an HTTP API that answers when the order is made, even if that takes long.
func orders(t *testing.T, made *atomic.Int32, inside func()) *httptest.Server {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	scope, err := idempotency.NewScope("http.orders.create")
	if err != nil {
		t.Fatal(err)
	}
	caller := httpdoor.Caller{Organization: uuid.New(), Principal: idempotency.Principal{Subject: "the vendor"}}
	door, err := httpdoor.New(httpdoor.Config{
		Keys: idempotency.MustService(pool, idempotency.Options{}), Scope: scope, Lease: time.Minute, Required: true,
		Authorize: func(http.ResponseWriter, *http.Request) (httpdoor.Caller, bool) { return caller, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(door.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := made.Add(1)
		inside()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"order":%d}`, n)
	})))
	t.Cleanup(s.Close)
	return s
}

func place(ctx context.Context, url, key, body string) (status int, answer, retryAfter string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", "", err
	}
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Header.Get("Retry-After"), err
}

func TestSynchronousConsumer(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	s := orders(t, &made, func() {})
	body := string(pick(t, "nylas/event-created")[0].Content)
	var mu sync.Mutex
	statuses := make(map[int]int)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			status, answer, retryAfter, err := place(t.Context(), s.URL, "n1", body)
			if err != nil || status == http.StatusCreated && answer != `{"order":1}` || status == http.StatusConflict && retryAfter == "" {
				t.Errorf("%d %s %q %v", status, answer, retryAfter, err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	if statuses[http.StatusCreated]+statuses[http.StatusConflict] != 20 || statuses[http.StatusCreated] == 0 {
		t.Errorf("answers %v, want 201, or 409 while the first runs", statuses)
	}
	for range 3 {
		if status, answer, _, err := place(t.Context(), s.URL, "n1", body); err != nil || status != http.StatusCreated || answer != `{"order":1}` {
			t.Errorf("again: %d %s %v", status, answer, err)
		}
	}
	if status, answer, _, err := place(t.Context(), s.URL, "n1", `{"another":"order"}`); err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(answer, "KEY_MISMATCH") {
		t.Errorf("another content: %d %s %v", status, answer, err)
	}
	if made.Load() != 1 {
		t.Errorf("%d orders", made.Load())
	}
}

func TestSlowSynchronousConsumer(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	entered, leave := make(chan struct{}), make(chan struct{})
	s := orders(t, &made, func() { close(entered); <-leave })
	ctx, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, _, _, err := place(ctx, s.URL, "n1", "{}")
		first <- err
	}()
	<-entered
	for range 3 { // the vendor stops waiting, and sends again
		if status, _, retryAfter, err := place(t.Context(), s.URL, "n1", "{}"); err != nil || status != http.StatusConflict || retryAfter == "" {
			t.Errorf("while it runs: %d, Retry-After %q, %v", status, retryAfter, err)
		}
	}
	close(leave)
	giveUp()
	<-first // it may have got its answer
	status, answer := http.StatusConflict, ""
	for status == http.StatusConflict {
		var err error
		if status, answer, _, err = place(t.Context(), s.URL, "n1", "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if status != http.StatusCreated || answer != `{"order":1}` || made.Load() != 1 {
		t.Errorf("at last: %d %s, %d orders", status, answer, made.Load())
	}
}
