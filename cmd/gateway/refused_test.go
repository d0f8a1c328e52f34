package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"webhook-gateway/configs"
	"webhook-gateway/internal/admin"
	"webhook-gateway/providers"
)

// raw sends bytes to the public listener and returns the answer, once the gateway has ended it.
func (r *running) raw(text string) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	_, _ = io.WriteString(conn, text) // the gateway may have answered before all of it is written
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		r.t.Errorf("%.40q: %v", text, err)
	}
	return string(answer)
}

// wait waits for a line of the log in which a text is.
func (l *logBuffer) wait(t *testing.T, with string) string {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); {
		if lines := l.lines(with); len(lines) > 0 {
			return lines[0]
		}
	}
	t.Fatalf("the log has no %s", with)
	return ""
}

func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	one, _ := slackTown(r)
	path := providers.JobPath("slack", one.ID)
	const closes = "Host: x\r\nConnection: close\r\n\r\n"
	for _, tt := range []struct {
		name, send, answer, reason string
	}{
		{"another path", "GET /wp-login.php HTTP/1.1\r\n" + closes, "404", "path"},
		{"another method", "PUT " + path + " HTTP/1.1\r\n" + closes, "405", "path"},
		{"two slashes at the end", "POST " + path + "// HTTP/1.1\r\n" + closes, "404", "path"},
		{"large headers", "POST " + path + " HTTP/1.1\r\nX-Large: " + strings.Repeat("x", 64<<10) + "\r\n" + closes, "431", "headers"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "505", "protocol"},
		{"TLS", "\x16\x03\x01\x00\x05hello\r\n\r\n", "400", "protocol"},
		{"no host", "POST " + path + " HTTP/1.1\r\n\r\n", "400", "protocol"},
		{"an encoding of tomorrow", "POST " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n", "501", "protocol"},

		{"unsigned", "POST " + path + " HTTP/1.1\r\n" + closes, "401", ""},
		{"no challenge", "GET /webhooks/nylas/sources/main HTTP/1.1\r\n" + closes, "404", ""},
		{"health", "GET /healthz HTTP/1.1\r\n" + closes, "200", ""},
	} {
		before := r.refused()
		answer := r.raw(tt.send)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+tt.answer) {
			t.Errorf("%s: answered %.60q, want %s", tt.name, answer, tt.answer)
		}
		for reason, n := range r.refused() {
			want := before[reason]
			if reason == tt.reason {
				want++
			}
			if n != want {
				t.Errorf("%s: %v refused for %s, want %v", tt.name, n, reason, want)
			}
		}
	}
}

// refused is how many requests were refused for each reason.
func (r *running) refused() map[string]float64 {
	r.t.Helper()
	n, series := make(map[string]float64), r.scrape()
	for _, reason := range []string{"path", "headers", "protocol"} {
		value, ok := series[`gateway_requests_refused_total{reason="`+reason+`"}`]
		if !ok {
			r.t.Fatalf("no series for %s", reason)
		}
		n[reason] = value
	}
	return n
}

func TestRejectionsSayWhereTheyCameFrom(t *testing.T) {
	t.Parallel()
	r := startGateway(t, func(c *configs.Config) {
		if err := c.TrustedProxies.UnmarshalText([]byte("127.0.0.1, 10.0.0.0/8")); err != nil {
			t.Fatal(err)
		}
	})
	one, _ := slackTown(r)
	path := providers.JobPath("slack", one.ID)
	from := http.Header{"X-Forwarded-For": {"203.0.113.9, 198.51.100.7, 10.1.2.3"}}
	r.post(path+"?token=sesame", []byte(slackEvent("T1", "Ev1", "hi")), from)
	r.post("/no/such%1b%5b31m/"+strings.Repeat("é", 200)+"?token=sesame", nil, from)
	r.ack(r.postSlack(path+"/", slackSecret, slackEvent("T1", "Ev2", "hi")))
	r.wantDeliveries(1)

	type line struct {
		Path, Client, Note, Reason, Method string
		RequestID                          string `json:"request_id"`
	}
	read := func(with string) (l line) {
		text := r.log.wait(t, with)
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if len(l.RequestID) != 36 || l.Client != "198.51.100.7" || strings.Contains(text, "sesame") {
			t.Errorf("%s: want a request id, the client and nothing of the query", text)
		}
		return l
	}
	if l := read(`"outcome":"rejected"`); l.Path != path || l.Note != "unsigned" {
		t.Errorf("%+v, want the path", l)
	}
	l := read(`"msg":"request refused"`)
	if !strings.HasPrefix(l.Path, "/no/such%1B%5B31m/%C3%A9%C3%A9") && !strings.HasPrefix(l.Path, "/no/such%1b%5b31m/%C3%A9%C3%A9") ||
		len(l.Path) > 210 || l.Method != "POST" || l.Reason != "path" {
		t.Errorf("%+v", l)
	}
	if accepted := r.log.wait(t, `"outcome":"accepted"`); strings.Contains(accepted, "client") || strings.Contains(accepted, `"path"`) {
		t.Errorf("%s: an accepted delivery needs neither", accepted)
	}
}

func TestUnsettledDeliveryIsOneLine(t *testing.T) {
	t.Parallel()
	r := startGateway(t, func(c *configs.Config) { c.SettleTimeout = 3 * time.Second })
	slackTown(r)
	if _, err := r.pool.Exec(t.Context(), `ALTER TABLE agent.idempotency_keys RENAME TO elsewhere`); err != nil {
		t.Fatal(err)
	}
	if got := r.postSlack("/webhooks/slack/sources/main", slackSecret, slackEvent("T1", "Ev1", "hi")); got.status != http.StatusServiceUnavailable {
		t.Errorf("answered %d, want 503", got.status)
	}
	for deadline := time.Now().Add(testTimeout); r.metric(`gateway_deliveries_failed_total{provider="slack"}`) != 1; {
		if time.Now().After(deadline) {
			t.Fatal("it has no ending")
		}
	}
	r.post("/the/last", nil)
	r.log.wait(t, "/the/last") // the lines before it are there
	lines := r.log.lines("deliver")
	if len(lines) != 1 || !strings.Contains(lines[0], "Ev1") || !strings.Contains(lines[0], "42P01") || !strings.Contains(lines[0], "request_id") {
		t.Errorf("%d lines, want one with the reason:\n%s", len(lines), strings.Join(lines, ""))
	}
}

func TestHealthOfThePublicListener(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		req, err := http.NewRequest(method, r.url+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || len(text) > 0 {
			t.Errorf("%s: %d %q, want 200 and no body", method, res.StatusCode, text)
		}
	}
	var draining admin.Handler
	draining.SetUnready("draining")
	rec := httptest.NewRecorder()
	draining.Healthz(rec, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if rec.Code != http.StatusServiceUnavailable || rec.Body.Len() > 0 {
		t.Errorf("draining: %d %q, want 503 and no body", rec.Code, rec.Body)
	}
	for path, status := range map[string]int{"/readyz": 404, "/livez": 404, "/metrics": 404} {
		if got, _ := get(t, r.url+path); got != status {
			t.Errorf("%s: %d, want %d", path, got, status)
		}
	}
	if got := r.post("/healthz", nil); got.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d, want 405", got.status)
	}
}
