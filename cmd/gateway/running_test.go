package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"webhook-gateway/configs"
	"webhook-gateway/feed"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/logsink"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/jobs"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// running is a gateway in this process, with its own database.
type running struct {
	t      *testing.T
	url    string
	admin  string
	pool   *pgxpool.Pool
	store  *jobs.Store
	client *http.Client
	config configs.Config
	log    *logBuffer
}

// logBuffer holds a gateway's log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(lines []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(lines)
}

// lines are the lines of the log so far in which a text is.
func (l *logBuffer) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

var testKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

// startGateway runs a gateway until the test ends. It skips what serve checks of the server first: the
// tests' PostgreSQL does not flush, which serve refuses.
func startGateway(t *testing.T, edit ...func(*configs.Config)) *running {
	t.Helper()
	return startGatewayOn(t, pgtest.New(t), edit...)
}

func startGatewayOn(t *testing.T, url string, edit ...func(*configs.Config)) *running {
	t.Helper()
	cfg, err := configs.Load("", []string{
		"DATABASE_URL=" + url, "GATEWAY_SECRETS_KEY=" + testKey,
		"GATEWAY_LISTEN=127.0.0.1:0", "GATEWAY_ADMIN_LISTEN=127.0.0.1:0", "GATEWAY_STATE_DIR=" + t.TempDir(),
		"GATEWAY_SETTLE_TIMEOUT=10s", // the race detector, and whatever else the machine does, takes its time
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range edit {
		f(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	pool, err := connect(ctx, url, 24)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := jobs.NewKeys(testKey)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	logged := &logBuffer{}
	sink := logsink.New(logged, reg)
	g, err := gateway.New(gateway.Base{Config: cfg, Vendors: vendors(), Pool: pool, Keys: keys, Registry: reg, Log: gateway.NewLogger(sink, cfg)})
	if err != nil {
		t.Fatal(err)
	}
	up, down := make(chan gateway.Addresses, 1), make(chan error, 1)
	go func() { down <- g.Run(ctx, func(a gateway.Addresses) { up <- a }) }()
	r := &running{t: t, pool: pool, store: jobs.NewStore(pool, keys), config: cfg, log: logged,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}}
	select {
	case a := <-up:
		r.url, r.admin = "http://"+a.Public.String(), "http://"+a.Admin.String()
	case err := <-down:
		t.Fatalf("gateway did not start: %v", err)
	}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		stop()
		if err := <-down; err != nil {
			t.Errorf("gateway did not stop cleanly: %v", err)
		}
		pool.Close()
		_ = sink.Close() // it returns no error
	})
	return r
}

func (r *running) addSource(provider, name, secret string, pins ...jobs.Identity) jobs.StoredSource {
	r.t.Helper()
	s, err := r.store.AddSource(r.t.Context(), jobs.NewSource{Provider: provider, Name: name, Pins: pins, Secret: r.secret(secret)})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *running) addJob(n jobs.NewJob) jobs.StoredJob {
	r.t.Helper()
	if n.Organization == uuid.Nil {
		n.Organization = uuid.New()
	}
	j, err := r.store.AddJob(r.t.Context(), n)
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

func (r *running) secret(text string) jobs.Secret {
	r.t.Helper()
	if text == "" {
		return jobs.Secret{}
	}
	s, err := jobs.NewSecret(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// answer is what a vendor sees.
type answer struct {
	status int
	body   string
	header http.Header
	again  func() answer // sends the request once more, as a vendor does after a 503
}

// post sends a body; a transport error is status 0.
func (r *running) post(path string, body []byte, headers ...http.Header) answer {
	a := r.postOnce(path, body, headers...)
	a.again = func() answer { return r.postOnce(path, body, headers...) }
	return a
}

func (r *running) postOnce(path string, body []byte, headers ...http.Header) answer {
	req, err := http.NewRequest(http.MethodPost, r.url+path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		for name, values := range h {
			req.Header[name] = values
		}
	}
	res, err := r.client.Do(req)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, body: string(text), header: res.Header}
}

func (r *running) postNylas(path, secret, body string) answer {
	return r.post(path, []byte(body), nylas.Sign(secret, []byte(body)))
}

func (r *running) postSlack(path, secret, body string) answer {
	return r.post(path, []byte(body), slack.Sign(secret, time.Now(), []byte(body)))
}

// ack demands the ACK: 200 without a body. A machine that is busy may ask for the delivery once more: what cannot be
// confirmed within two seconds is 503.
func (r *running) ack(a answer) {
	r.t.Helper()
	for late := time.Now().Add(time.Minute); a.status == http.StatusServiceUnavailable && a.again != nil && time.Now().Before(late); {
		again := a.again
		a = again()
		a.again = again
	}
	if a.status != http.StatusOK || a.body != "" {
		r.t.Errorf("answered %d %q, want 200 and no body", a.status, a.body)
	}
}

func (r *running) count(sql string, args ...any) int {
	r.t.Helper()
	var n int
	if err := r.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// wantCount compares one count with the database.
func (r *running) wantCount(want int, sql string, args ...any) {
	r.t.Helper()
	if got := r.count(sql, args...); got != want {
		r.t.Errorf("%d rows, want %d: %s", got, want, sql)
	}
}

// wantDeliveries compares how many deliveries of the inbox the filter selects; without one, how many there are.
func (r *running) wantDeliveries(want int, filter ...feed.Filter) {
	r.t.Helper()
	got := 0
	for _, err := range feed.NewReader(r.pool).All(r.t.Context(), append(filter, feed.Filter{})[0]) {
		if err != nil {
			r.t.Fatal(err)
		}
		got++
	}
	if got != want {
		r.t.Errorf("%d deliveries, want %d: %+v", got, want, filter)
	}
}

// metric scrapes one series, named with its labels as in name{a="b"}.
func (r *running) metric(name string) float64 {
	r.t.Helper()
	value, ok := r.scrape()[name]
	if !ok {
		r.t.Fatalf("no series %s", name)
	}
	return value
}

// scrape reads every counter and gauge, as Prometheus would.
func (r *running) scrape() map[string]float64 {
	r.t.Helper()
	res, err := r.client.Get(r.admin + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	values := make(map[string]float64)
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			key := name
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			values[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return values
}

// atOnce calls f n times at the same time.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	gun := make(chan struct{})
	for i := range n {
		all.Go(func() { <-gun; f(i) })
	}
	close(gun)
	all.Wait()
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
