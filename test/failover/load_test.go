package failover

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"webhook-gateway/providers/nylas"
	"webhook-gateway/test/binary"
)

// load sends deliveries to gateways as a vendor does, each until it is acknowledged, and remembers every answer.
type load struct {
	t      *testing.T
	stop   chan struct{}
	done   sync.WaitGroup
	client *http.Client

	mu      sync.Mutex
	changed *sync.Cond
	acked   map[string]bool
	answers []map[int]int // by gateway and status since the last count
}

const (
	senders = 4
	// A vendor does not repeat at once. The pause also limits the load.
	repeatAfter = 20 * time.Millisecond
)

func startLoad(t *testing.T, gateways []*binary.Serving) *load {
	t.Helper()
	l := &load{t: t, stop: make(chan struct{}), acked: make(map[string]bool),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: senders}}}
	l.changed = sync.NewCond(&l.mu)
	for range gateways {
		l.answers = append(l.answers, make(map[int]int))
	}
	for g := range gateways {
		for s := range senders {
			l.done.Go(func() { l.send(gateways, g, s) })
		}
	}
	return l
}

// send sends one delivery after the other. A repeat goes to the other gateway, as through a load balancer.
func (l *load) send(gateways []*binary.Serving, g, s int) {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-pace.C:
		}
		id := fmt.Sprintf("%d-%d-%d", g, s, n)
		for attempt := 1; ; attempt++ {
			at := (g + attempt - 1) % len(gateways)
			status := l.post(gateways[at].URL, message(id, attempt))
			l.answered(at, id, status)
			if status == http.StatusOK {
				break
			}
			<-time.After(repeatAfter)
		}
	}
}

func (l *load) post(url string, body []byte) int {
	req, err := http.NewRequest(http.MethodPost, url+"/webhooks/nylas/sources/main", bytes.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return 0
	}
	req.Header = nylas.Sign(secret, body)
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (l *load) answered(gateway int, id string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if status == http.StatusOK {
		l.acked[id] = true
	}
	l.answers[gateway][status]++
	l.changed.Broadcast()
}

// until returns once each gateway has answered n times with the status since the last call. It returns all answers
// since then.
func (l *load) until(status, n int) []map[int]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	enough := func() bool {
		for _, a := range l.answers {
			if a[status] < n {
				return false
			}
		}
		return true
	}
	for !enough() {
		l.changed.Wait()
	}
	all := l.answers
	l.answers = nil
	for range all {
		l.answers = append(l.answers, make(map[int]int))
	}
	return all
}

// end stops the senders after their current deliveries, and returns the acknowledged ones.
func (l *load) end() map[string]bool {
	close(l.stop)
	l.done.Wait()
	l.client.CloseIdleConnections()
	return l.acked
}
