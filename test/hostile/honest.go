package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/providers/nylas"
)

// The honest load: small calls at a steady rate, half of them over new connections, and a few large ones.
const (
	smallEvery = 5 * time.Millisecond
	largeEvery = 200 * time.Millisecond
	largeBytes = 300 << 10
)

// calls holds the answers to one kind of call.
type calls struct {
	mu    sync.Mutex
	took  []time.Duration
	other map[string]int // answers that are not 200, by status or error
}

func (c *calls) add(took time.Duration, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
	if answer != "200" {
		if c.other == nil {
			c.other = make(map[string]int)
		}
		c.other[answer]++
	}
}

func (c *calls) failed() (n int) {
	for _, count := range c.other {
		n += count
	}
	return n
}

// at returns a quantile of the times.
func (c *calls) at(q float64) time.Duration {
	if len(c.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.took))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// honest is the honest load and its answers.
type honest struct {
	small, large calls
	kept, fresh  *http.Client
	to           target
}

func newHonest(to target) *honest {
	const timeout = 30 * time.Second // longer than any vendor waits, so that slow answers are seen
	return &honest{
		to:    to,
		kept:  &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
		fresh: &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// run sends until ctx ends, and waits for the answers. It sends each call on time even if earlier ones have no
// answer, and measures from when the call was due.
func (h *honest) run(ctx context.Context) {
	var sent sync.WaitGroup
	defer h.kept.CloseIdleConnections()
	defer sent.Wait()
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * smallEvery)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		client := h.kept
		if n%2 == 1 {
			client = h.fresh
		}
		sent.Go(func() { h.call(client, &h.small, due, message(1200)) })
		if n%int(largeEvery/smallEvery) == 0 {
			sent.Go(func() { h.call(h.kept, &h.large, due, message(largeBytes)) })
		}
	}
}

func (h *honest) call(client *http.Client, to *calls, due time.Time, body []byte) {
	answer := post(context.Background(), client, h.to.address+honestPath, body, nylas.Sign(honestSecret, body))
	to.add(time.Since(due), answer)
}

// message returns a delivery of about that size: a list of objects, like real ones.
func message(size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":%q,"time":1723821985,`+
		`"webhook_delivery_attempt":1,"data":{"application_id":"app","object":{"grant_id":%q,"id":"m1","object":"message","to":[`,
		uuid.NewString(), honestGrant)
	const each = `{"name":"Somebody With A Name","email":"somebody@example.com"},`
	b.WriteString(strings.Repeat(each, max(1, (size-b.Len())/len(each))))
	b.WriteString(`{"name":"","email":""}]}}}`)
	return b.Bytes()
}

// post sends a body and returns the answer's status.
func post(ctx context.Context, client *http.Client, to string, body []byte, headers ...http.Header) (answer string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		maps.Copy(req.Header, h)
	}
	res, err := client.Do(req)
	if err != nil {
		return "cut"
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // the status is what matters
	return strconv.Itoa(res.StatusCode)
}
