package load

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver counts what it is sent, and refuses every refuse-th request.
type receiver struct {
	mu     sync.Mutex
	n      int
	refuse int
	slow   time.Duration
	bodies map[[32]byte]int
}

func (r *receiver) counts() (requests, bodies int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, len(r.bodies)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	<-time.After(r.slow)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.bodies[sha256.Sum256(body)]++
	if r.refuse > 0 && r.n%r.refuse == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func sendTo(t *testing.T, r *receiver, edit func(*Spec)) *Result {
	t.Helper()
	r.bodies = map[[32]byte]int{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	spec := testSpec(Usual)
	spec.Addresses = []string{strings.TrimPrefix(server.URL, "http://")}
	spec.Warm, spec.Measure, spec.Requests = 20*time.Millisecond, 100*time.Millisecond, 50_000
	edit(spec)
	p, err := prepare(spec)
	if err != nil {
		t.Fatal(err)
	}
	result, err := send(spec, p)
	if err != nil {
		t.Fatal(err)
	}
	arrived, _ := r.counts()
	if refused := result.Refused[http.StatusServiceUnavailable]; result.AllOK+refused != result.AllSent || result.AllSent != arrived || result.Broken > 0 {
		t.Errorf("sent %d, of which %d arrived; 200 for %d, 503 for %d, no answer for %d", result.AllSent, arrived, result.AllOK, refused, result.Broken)
	}
	return result
}

func TestSendCounts(t *testing.T) {
	t.Parallel()
	r := &receiver{refuse: 3}
	result := sendTo(t, r, func(*Spec) {})
	if result.AllOK == 0 || result.Refused[503] == 0 || result.Answered > result.AllOK || result.RanOut {
		t.Errorf("got %+v", result)
	}
	if requests, bodies := r.counts(); requests != bodies {
		t.Errorf("%d requests with %d bodies", requests, bodies)
	}
}

func TestSendRunsOut(t *testing.T) {
	t.Parallel()
	result := sendTo(t, &receiver{}, func(s *Spec) { s.Requests, s.Warm, s.Measure = 8, 0, time.Hour })
	if result.AllSent != 8 || !result.RanOut || result.Elapsed > time.Minute {
		t.Errorf("got %+v", result)
	}
}

func TestSendRepeated(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	result := sendTo(t, r, func(s *Spec) { s.Requests, s.Repeat = 50, true })
	if _, bodies := r.counts(); bodies != 50 || result.AllSent < 100 || result.Answered > result.AllSent-50 {
		t.Errorf("%d bodies, %+v", bodies, result)
	}
}

func TestLatencyFromDueTime(t *testing.T) {
	t.Parallel()
	// One connection, answered every 20 ms, cannot keep up with a request every 5: what waits for it waits longer and longer.
	result := sendTo(t, &receiver{slow: 20 * time.Millisecond}, func(s *Spec) {
		s.Rate, s.Connections, s.Warm, s.Measure, s.Requests = 200, 1, 0, 100*time.Millisecond, 100
	})
	if result.Answered < 19 || result.Answered > 21 {
		t.Errorf("%d requests were due and answered, want 20", result.Answered)
	}
	if result.Max < 200*time.Millisecond {
		t.Errorf("the last waited %v, want some 300 ms", result.Max)
	}
}

func TestOnlyThisMachineIsSentTo(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"192.0.2.1:80", "[::1]:80", "localhost:80", ""} {
		if err := checkAddress(address); err == nil {
			t.Errorf("%q would be sent to", address)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		text   string
		status int
		whole  bool
	}{
		{ok, 200, true},
		{ok[:len(ok)-1], 0, false},
		{"", 0, false},
		{"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\nno", 503, true},
		{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nno", 503, false},
		{"HTTP/1.1 204 No Content\r\n\r\n", 204, true},
	} {
		status, whole := readAnswer([]byte(c.text))
		if status != c.status || whole != c.whole {
			t.Errorf("%q: got %d, %v", c.text, status, whole)
		}
	}
}
