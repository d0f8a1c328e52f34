package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"webhook-gateway/configs"
	"webhook-gateway/providers/nylas"
)

// dial opens a connection to the public listener and sends the beginning of a request.
func (r *running) dial(beginning string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testTimeout)) // a TCP connection can
	_, _ = io.WriteString(conn, beginning)            // it may be closed already
	return conn
}

// until waits until a series is what it should be.
func (r *running) until(series string, want float64) {
	r.t.Helper()
	var got float64
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); {
		if got = r.metric(series); got == want {
			return
		}
	}
	r.t.Fatalf("%s is %v, want %v", series, got, want)
}

// Connections that stall fill the limit, and give way to those that send a whole request.
func TestStalledConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	const limit = 4
	body := []byte(nylasMessage("G1", "n1", 1))
	signature := nylas.Sign(nylasSecret, body).Get("X-Nylas-Signature")
	head := "POST /webhooks/nylas/sources/main HTTP/1.1\r\nHost: x\r\nX-Nylas-Signature: " + signature + "\r\n"
	for _, tt := range []struct {
		name, beginning, state, reason string
	}{
		{"nothing", "", "waiting", "idle"},
		{"a part of a head", head, "waiting", "idle"},
		{"a part of a body", head + "Content-Length: 1000\r\n\r\n{", "busy", "slow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := startGateway(t, func(c *configs.Config) { c.MaxConnections = limit })
			nylasTown(r)
			var stalled []net.Conn
			for n := range limit {
				stalled = append(stalled, r.dial(tt.beginning))
				r.until(fmt.Sprintf("gateway_connections{state=%q}", tt.state), float64(n+1))
			}
			left := map[string]float64{tt.state: limit - 1}
			for n := range 3 {
				conn := r.dial(head + fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body))
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("a delivery: %v, %v", res, err)
				}
				res.Body.Close()
				r.until(`gateway_connections{state="waiting"}`, left["waiting"])
				r.until(`gateway_connections{state="busy"}`, left["busy"])
				if n == 0 {
					if _, err := stalled[0].Read(make([]byte, 1)); err == nil {
						t.Error("the oldest connection is not closed")
					}
				}
			}
			if n := r.metric(fmt.Sprintf("gateway_connections_closed_total{reason=%q}", tt.reason)); n != 1 {
				t.Errorf("%v connections were closed, want 1: those that are answered leave by themselves", n)
			}
			if n := r.metric("gateway_connections_limit"); n != limit {
				t.Errorf("gateway_connections_limit is %v", n)
			}
		})
	}
}
