package watch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// Sent counts what was sent in the name of one provider, by the outcome that it must have.
type Sent struct {
	Accepted, Failed  int
	Dropped           map[drops.Reason]int
	Rejected          map[string]int // by the reason in the metric
	Handshakes        int
	Current, Previous int         // verified, by secret
	Answers           map[int]int // by status
}

// Received returns the number of verified deliveries.
func (s *Sent) Received() int {
	n := s.Accepted + s.Failed
	for _, dropped := range s.Dropped {
		n += dropped
	}
	return n
}

// Answered returns the number of answers, and how many of them are not 2xx.
func (s *Sent) Answered() (all, failed int) {
	for status, n := range s.Answers {
		all += n
		if status/100 != 2 {
			failed += n
		}
	}
	return all, failed
}

// Traffic sends to a gateway and counts what it sent. It is safe for concurrent use.
type Traffic struct {
	gateway *Gateway
	to      *Registered
	client  *http.Client

	mu    sync.Mutex
	nylas Sent
	slack Sent
	names int
}

// NewTraffic returns traffic that has sent nothing.
func NewTraffic(g *Gateway, to *Registered) *Traffic {
	none := func() Sent {
		return Sent{Dropped: make(map[drops.Reason]int), Rejected: make(map[string]int), Answers: make(map[int]int)}
	}
	return &Traffic{
		gateway: g, to: to, nylas: none(), slack: none(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second},
	}
}

// Nylas returns the counts of what was sent in its name so far.
func (t *Traffic) Nylas() *Sent { return &t.nylas }

// Slack returns the counts of what was sent in its name so far.
func (t *Traffic) Slack() *Sent { return &t.slack }

// name returns an id that no earlier delivery has.
func (t *Traffic) name() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names++
	return fmt.Sprintf("n%d", t.names)
}

// count changes the counts under the lock.
func (t *Traffic) count(f func(n, s *Sent)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.nylas, &t.slack)
}

// post sends one request and checks its status.
func (t *Traffic) post(ctx context.Context, path string, body []byte, header http.Header, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.gateway.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	return t.do(req, want)
}

func (t *Traffic) do(req *http.Request, want int) error {
	res, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection is reused
	t.answered(req.URL.Path, res.StatusCode)
	if res.StatusCode != want {
		return fmt.Errorf("%s %s was answered %d, want %d", req.Method, req.URL.Path, res.StatusCode, want)
	}
	return nil
}

func (t *Traffic) answered(path string, status int) {
	t.count(func(n, s *Sent) {
		if strings.HasPrefix(path, "/webhooks/slack/") {
			s.Answers[status]++
		} else {
			n.Answers[status]++
		}
	})
}

// message is a notification of Nylas.
func message(grant, id, subject string) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":%q,"time":1723821985,`+
		`"webhook_delivery_attempt":1,"data":{"application_id":"app-1","object":{"grant_id":%q,"id":"m1","object":"message","subject":%q}}}`,
		id, grant, subject)
}

// deliver sends a body signed by the destination's current secret.
func (t *Traffic) deliver(ctx context.Context, path string, body []byte, want int) error {
	t.count(func(n, _ *Sent) { n.Current++ })
	return t.post(ctx, path, body, nylas.Sign(t.to.current, body), want)
}

// Accept sends new deliveries, a few at once, and returns their ids.
func (t *Traffic) Accept(ctx context.Context, n int) (ids []string, err error) {
	for range n {
		ids = append(ids, t.name())
	}
	err = atOnce(ids, 8, func(id string) error { return t.deliver(ctx, mainPath, message("G1", id, "Hello"), 200) })
	t.count(func(s, _ *Sent) { s.Accepted += n })
	return ids, err
}

// AcceptPrevious sends new deliveries that are signed with the previous secret.
func (t *Traffic) AcceptPrevious(ctx context.Context, n int) error {
	for range n {
		body := message("G1", t.name(), "Hello")
		if err := t.post(ctx, mainPath, body, nylas.Sign(t.to.previous, body), 200); err != nil {
			return err
		}
		t.count(func(s, _ *Sent) { s.Accepted++; s.Previous++ })
	}
	return nil
}

// Drop sends n deliveries that are dropped for the reason. ids holds at least n accepted ones, for the reasons that
// need one.
func (t *Traffic) Drop(ctx context.Context, reason drops.Reason, n int, ids []string) error {
	for i := range n {
		path, body := mainPath, []byte(nil)
		switch reason {
		case drops.Duplicate:
			body = message("G1", ids[i], "Hello")
		case drops.HashMismatch:
			body = message("G1", ids[i], "Not hello")
		case drops.UnknownJob:
			body = message("G9", t.name(), "Hello")
		case drops.JobMismatch:
			path, body = "/webhooks/nylas/"+t.to.tenant.String(), message("G2", t.name(), "Hello")
		case drops.Malformed:
			body = fmt.Appendf(nil, `{"id":%q`, t.name())
		}
		if err := t.deliver(ctx, path, body, 200); err != nil {
			return fmt.Errorf("drop a delivery for %s: %w", reason, err)
		}
		t.count(func(s, _ *Sent) { s.Dropped[reason]++ })
	}
	return nil
}

// Fail sends new deliveries that cannot be settled: PostgreSQL must be stopped.
func (t *Traffic) Fail(ctx context.Context, n int) error {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = t.name()
	}
	err := atOnce(ids, n, func(id string) error { return t.deliver(ctx, mainPath, message("G1", id, "Hello"), 503) })
	t.count(func(s, _ *Sent) { s.Failed += n })
	return err
}

// Handshake sends Nylas's challenges.
func (t *Traffic) Handshake(ctx context.Context, n int) error {
	for range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.gateway.URL+mainPath+"?challenge=abc", nil)
		if err == nil {
			err = t.do(req, 200)
		}
		if err != nil {
			return err
		}
		t.count(func(s, _ *Sent) { s.Handshakes++ })
	}
	return nil
}

// Reject sends requests that are refused for the reason, in the name of Nylas.
func (t *Traffic) Reject(ctx context.Context, reason string, n int) error {
	body := message("G1", "never kept", "Hello")
	wrong := nylas.Sign("another secret", body)
	for range n {
		var err error
		switch reason {
		case "unsigned":
			err = t.post(ctx, mainPath, body, nil, 401)
		case "mismatch":
			err = t.post(ctx, mainPath, body, wrong, 401)
		case "unconfirmed":
			err = t.post(ctx, rotatingPath, body, wrong, 503)
		case "no_secret":
			err = t.post(ctx, "/webhooks/nylas/"+t.to.secretless.String(), body, wrong, 503)
		case "too_large":
			err = t.post(ctx, mainPath, make([]byte, 128<<10+1), wrong, 413)
		default:
			err = errors.New("unknown reason")
		}
		if err != nil {
			return fmt.Errorf("reject a request as %s: %w", reason, err)
		}
		t.count(func(s, _ *Sent) { s.Rejected[reason]++ })
	}
	return nil
}

// RejectSlack sends requests that are refused for the reason, in the name of Slack.
func (t *Traffic) RejectSlack(ctx context.Context, reason string, n int) error {
	body := []byte(`{"type":"event_callback","team_id":"T1","event_id":"Ev1"}`)
	var header http.Header
	switch reason {
	case "stale":
		header = slack.Sign(slackSecret, time.Now().Add(-time.Hour), body)
	case "mismatch":
		header = slack.Sign("another secret", time.Now(), body)
	case "unsigned":
	default:
		return fmt.Errorf("reject a request of Slack as %s: unknown reason", reason)
	}
	err := atOnce(make([]string, n), 8, func(string) error {
		return t.post(ctx, slackPath, body, header, 401)
	})
	t.count(func(_, s *Sent) { s.Rejected[reason] += n })
	return err
}

// Crowd sends more unfinished bodies at once than the budget has room for: some are refused as overloaded, the others
// as slow.
func (t *Traffic) Crowd(ctx context.Context) error {
	const each = 128 << 10
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for range (1<<20)/each + 4 {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(t.gateway.URL, "http://"))
		if err != nil {
			return err
		}
		all = append(all, c)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gateway\r\nX-Nylas-Signature: %s\r\nContent-Length: %d\r\n\r\n",
			mainPath, strings.Repeat("a", 64), each)
		if _, err := c.Write(append([]byte(head), make([]byte, each-1)...)); err != nil {
			return fmt.Errorf("send an unfinished body: %w", err)
		}
	}
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return fmt.Errorf("read the answer to an unfinished body: %w", err)
		}
		_ = res.Body.Close() // it is empty
		t.answered(mainPath, res.StatusCode)
		reason, ok := map[int]string{http.StatusRequestTimeout: "slow", http.StatusServiceUnavailable: "overloaded"}[res.StatusCode]
		if !ok {
			return fmt.Errorf("an unfinished body was answered %s", res.Status)
		}
		t.count(func(s, _ *Sent) { s.Rejected[reason]++ })
	}
	if t.nylas.Rejected["slow"] == 0 || t.nylas.Rejected["overloaded"] == 0 {
		return fmt.Errorf("unfinished bodies must be refused as slow and as overloaded, got %v", t.nylas.Rejected)
	}
	return nil
}

// atOnce calls f for each item of the list, width at a time, and returns the first error.
func atOnce(list []string, width int, f func(string) error) error {
	next := make(chan string)
	failed := make(chan error, width)
	var all sync.WaitGroup
	for range width {
		all.Go(func() {
			for one := range next {
				if err := f(one); err != nil {
					failed <- err
					for range next { // drain, so that the caller does not block
					}
					return
				}
			}
		})
	}
	for _, one := range list {
		next <- one
	}
	close(next)
	all.Wait()
	close(failed)
	return <-failed
}
