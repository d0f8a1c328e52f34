package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pgtest"
)

// consumerEnv makes the test binary a consumer in another process, which can be killed.
const consumerEnv = "REPLAY_CONSUMER"

// killable configures such a consumer: it makes one charge, under one key.
type killable struct {
	Database, Provider string // addresses
	Organization       uuid.UUID
	Lease              time.Duration
	Hang               bool // between the effect and its completion
	Reconcile          bool // ask the provider whether an earlier worker has charged
}

const charged = "the charge is made"

// consumerMain is the process. It prints what it got; its exit status says whether it got it.
func consumerMain(what string) int {
	var k killable
	if err := json.Unmarshal([]byte(what), &k); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	pool, err := pgxpool.New(context.Background(), k.Database)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer pool.Close()
	done, err := again(func() (idempotency.Result[string], error) {
		return k.charge(idempotency.MustService(pool, idempotency.Options{}))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("%s %v\n", done.Value, done.Replayed)
	return 0
}

func (k killable) charge(keys *idempotency.Service) (idempotency.Result[string], error) {
	t := idempotency.Task[string]{Ref: k.ref(), Content: idempotency.Content([]byte(`{"cents":1999}`)), Lease: k.Lease}
	if k.Reconcile {
		t.Reconcile = func(_ context.Context, c *idempotency.Claim) (string, bool, error) {
			id, err := ask(http.MethodGet, k.Provider, c.Ref.Key.String())
			return id, id != "", err
		}
	}
	return idempotency.Do(context.Background(), keys, t, func(_ context.Context, c *idempotency.Claim) (string, error) {
		id, err := ask(http.MethodPost, k.Provider, c.Ref.Key.String())
		if err == nil && k.Hang {
			fmt.Println(charged)
			select {}
		}
		return id, err
	})
}

func (k killable) ref() idempotency.Ref {
	scope, err := idempotency.NewScope("tool.charge.create")
	if err != nil {
		panic(err)
	}
	key, err := idempotency.ToolKey("job_17", 3, "charge")
	if err != nil {
		panic(err)
	}
	return idempotency.Ref{Organization: k.Organization, Scope: scope, Key: key}
}

// ask asks the provider to charge under a key, or whether it has charged.
func ask(method, provider, key string) (string, error) {
	req, err := http.NewRequest(method, provider+"?key="+url.QueryEscape(key), nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusNotFound {
		return "", nil
	}
	return string(body), err
}

// provider charges for each POST, or once for each key if it accepts keys.
type provider struct {
	takesKeys bool

	mu           sync.Mutex
	asked, moved int
	charges      map[string]string
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.URL.Query().Get("key")
	id, known := p.charges[key]
	switch {
	case r.Method == http.MethodGet && !known:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPost:
		if p.asked++; !known || !p.takesKeys {
			p.moved++
			id = fmt.Sprint("ch_", p.moved)
			p.charges[key] = id
		}
	}
	fmt.Fprint(w, id)
}

// start runs a consumer as a process.
func (k killable) start(t *testing.T) (cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	what, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), consumerEnv+"="+string(what))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(pipe)
}

func TestConsumerKilledMidway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		reconcile bool
		takesKeys bool
		asked     int
	}{
		{"the next worker asks whether it was made", true, false, 1},
		{"the provider takes keys", false, true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &provider{takesKeys: tt.takesKeys, charges: make(map[string]string)}
			s := httptest.NewServer(p)
			defer s.Close()
			url := pgtest.New(t)
			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			keys := idempotency.MustService(pool, idempotency.Options{})
			k := killable{Database: url, Provider: s.URL, Organization: uuid.New(), Lease: 6 * time.Second, Reconcile: tt.reconcile}

			hanging := k
			hanging.Hang = true
			killed, out := hanging.start(t)
			if line, err := out.ReadString('\n'); err != nil || strings.TrimSpace(line) != charged {
				t.Fatalf("said %q, %v", line, err)
			}
			if err := killed.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = killed.Wait() // its status is that it was killed

			// Its key exists, but does not show whether the effect was made.
			k.wantRow(t, pool, "processing")
			var inFlight *idempotency.InFlightError
			if _, err := k.charge(keys); !errors.As(err, &inFlight) {
				t.Errorf("while its lease lives: %v, want in flight", err)
			}
			_, out = k.start(t) // it repeats until the lease has passed
			if line, err := out.ReadString('\n'); err != nil || strings.TrimSpace(line) != "ch_1 false" {
				t.Errorf("the next worker said %q, %v", line, err)
			}
			k.wantRow(t, pool, "completed")
			for range 3 {
				if done, err := k.charge(keys); err != nil || done.Value != "ch_1" || !done.Replayed {
					t.Errorf("afterwards: %+v, %v", done, err)
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.moved != 1 || p.asked != tt.asked {
				t.Errorf("charged %d times, asked %d times; want 1 and %d", p.moved, p.asked, tt.asked)
			}
		})
	}
}

func (k killable) wantRow(t *testing.T, pool *pgxpool.Pool, status string) {
	t.Helper()
	var n int
	var got string
	err := pool.QueryRow(context.Background(), `SELECT count(*), max(status) FROM agent.idempotency_keys WHERE organization_id = $1`, k.Organization).Scan(&n, &got)
	if err != nil || n != 1 || got != status {
		t.Errorf("%d keys, %s, %v; want one that is %s", n, got, err, status)
	}
}
