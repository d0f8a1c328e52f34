package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/providers/nylas"
)

// attack sends until ctx ends, over a bounded number of connections.
type attack struct {
	name string
	lead time.Duration // how long it takes until the attack is at its worst
	send func(ctx context.Context, to target, seen *calls)
	// tenant returns the body that one tenant sends with its own secret. It replaces send.
	tenant func() (body []byte, headers http.Header)
}

// scale is the size of the attacks, in proportion to a gateway's limits.
type scale struct {
	connections int // more than the gateway holds
	open, again int // how many are opened a second at first, and reopened a second when they are closed
	stallRate   int // bytes of stalled bodies a second, which fill the gateway's budget within lead
}

const (
	lead = 3 * time.Second
	fill = 6 * time.Second // until all connections are open
)

// full is for a gateway with the default limits.
var full = scale{connections: 12_000, open: 2000, again: 2000, stallRate: 1000 * 1000 * 1000 / 8}

func attacks(s scale) []attack {
	stall := func(connections, size int) func(context.Context, target, *calls) {
		return stalling{connections: connections, size: size, rate: s.stallRate}.send
	}
	forge := func(size int) func(context.Context, target, *calls) {
		return func(ctx context.Context, to target, seen *calls) { forged(ctx, to, seen, size) }
	}
	held := func(beginning string) func(context.Context, target, *calls) {
		return func(ctx context.Context, to target, seen *calls) { s.hold(ctx, to, seen, beginning) }
	}
	return []attack{
		{"none", 0, func(ctx context.Context, _ target, _ *calls) { <-ctx.Done() }, nil},
		{"bodies of 4 MiB that stall", lead, stall(128, 4<<20), nil},
		{"bodies of 60 KiB that stall", lead, stall(s.connections/2, 60<<10), nil},
		{"one tenant's gzip of 7 million JSON values", lead, nil, elements},
		{"one tenant's gzip of 1,000 deliveries, 16 MB", lead, nil, deliveries},
		{"one tenant's bodies of 4 MB", lead, nil, func() ([]byte, http.Header) { return message(4<<20 - 1000), nil }},
		{"forged bodies of 4 MiB to unknown ids", lead, forge(4 << 20), nil},
		{"forged bodies of 256 KiB to unknown ids", lead, forge(256 << 10), nil},
		{"forged bodies of 1 KiB to unknown ids", lead, forge(1 << 10), nil},
		{"idle connections", fill, held(""), nil},
		{"connections that stall in their heads", fill, held("POST " + honestPath + " HTTP/1.1\r\nHost: x\r\nX-A: "), nil},
		{"connections that stall in their bodies", fill, held(head(honestPath, 1000) + "{"), nil},
		{"unsigned connections that stall in their bodies", fill, held("POST " + honestPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"), nil},
	}
}

// head returns the head of a forged call.
func head(path string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Nylas-Signature: %s\r\n\r\n",
		path, length, strings.Repeat("0", 64))
}

// pace limits a rate to rate a second.
type pace struct {
	rate int
	mu   sync.Mutex
	next time.Time
}

func (p *pace) wait(ctx context.Context, n int) {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	until := p.next
	p.next = until.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	p.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(until)):
	}
}

// stalling declares one byte more than it sends, and waits for the answer.
type stalling struct {
	connections, size int
	rate              int // bytes a second, over all connections
}

func (s stalling) send(ctx context.Context, to target, seen *calls) {
	p := pace{rate: s.rate}
	body := bytes.Repeat([]byte("1"), s.size-1)
	atOnce(ctx, s.connections, func() {
		overConn(ctx, to, seen, func(conn net.Conn) error {
			if _, err := io.WriteString(conn, head(honestPath, s.size)); err != nil {
				return err
			}
			const piece = 32 << 10
			for rest := body; len(rest) > 0 && ctx.Err() == nil; {
				n := min(piece, len(rest))
				p.wait(ctx, n)
				if _, err := conn.Write(rest[:n]); err != nil {
					break // it may have been answered
				}
				rest = rest[n:]
			}
			return nil
		})
	})
}

// hold opens connections, sends the beginning of a call on each, and reopens those that are closed.
func (s scale) hold(ctx context.Context, to target, seen *calls, beginning string) {
	first, again := pace{rate: s.open}, pace{rate: s.again}
	send := func(conn net.Conn) error {
		_, err := io.WriteString(conn, beginning)
		return err
	}
	var all sync.WaitGroup
	for range s.connections {
		all.Go(func() {
			for p := &first; ctx.Err() == nil; p = &again {
				p.wait(ctx, 1)
				overConn(ctx, to, seen, send)
			}
		})
	}
	all.Wait()
}

// overConn begins a call on a new connection and waits for its answer or its end.
func overConn(ctx context.Context, to target, seen *calls, begin func(net.Conn) error) {
	var d net.Dialer
	began := time.Now()
	conn, err := d.DialContext(ctx, "tcp", to.address)
	if err != nil {
		if ctx.Err() == nil {
			seen.add(0, "not connected")
		}
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	answer := "cut"
	if begin(conn) == nil {
		if res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil); err == nil {
			answer = fmt.Sprint(res.StatusCode)
		}
	}
	if ctx.Err() == nil {
		seen.add(time.Since(began), answer)
	}
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // a write to memory cannot fail
	_ = z.Close()
	return b.Bytes()
}

// elements returns a small body that becomes millions of JSON values.
func elements() ([]byte, http.Header) {
	return pack([]byte("[" + strings.Repeat("1,", 7_000_000) + "1]")), http.Header{"Content-Encoding": {"gzip"}}
}

// deliveries returns a small body that becomes the most and the largest deliveries that one request may carry.
func deliveries() ([]byte, http.Header) {
	var list []string
	run, pad := uuid.NewString(), strings.Repeat("x", 15<<10)
	for n := range 1000 {
		list = append(list, fmt.Sprintf(`{"date":1700000000,"object":"message","type":"message.created",`+
			`"object_data":{"id":"%s-%d","object":"message","account_id":"acc","text":%q}}`, run, n, pad))
	}
	return pack([]byte(`{"deltas":[` + strings.Join(list, ",") + `]}`)), http.Header{"Content-Encoding": {"gzip"}}
}

// signed posts a body with a tenant's secret again and again.
func signed(ctx context.Context, to target, seen *calls, body []byte, more http.Header) {
	posted(ctx, seen, body, func() string { return to.address + to.tenant }, nylas.Sign(tenantSecret, body), more)
}

// forged posts an unsigned body to ids that do not exist.
func forged(ctx context.Context, to target, seen *calls, size int) {
	url := func() string { return to.address + "/webhooks/nylas/" + uuid.NewString() }
	posted(ctx, seen, bytes.Repeat([]byte("1"), size), url, nylas.Sign("no secret", nil))
}

// posted posts a body from 32 connections.
func posted(ctx context.Context, seen *calls, body []byte, url func() string, headers ...http.Header) {
	const connections = 32
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	atOnce(ctx, connections, func() {
		began := time.Now()
		if answer := post(ctx, client, url(), body, headers...); ctx.Err() == nil {
			seen.add(time.Since(began), answer)
		}
	})
}

// atOnce calls f in a loop until ctx ends, from n goroutines.
func atOnce(ctx context.Context, n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				f()
			}
		})
	}
	all.Wait()
}
