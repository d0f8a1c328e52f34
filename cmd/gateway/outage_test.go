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
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
	"webhook-gateway/providers/slack"
)

func TestOutageAnd503(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	r := startGatewayOn(t, server.URL(pgtest.Database), func(c *configs.Config) { c.SettleTimeout = 500 * time.Millisecond })
	one, _ := slackTown(r)
	path := providers.JobPath("slack", one.ID)
	r.ack(r.postSlack(path, slackSecret, slackEvent("T1", "Ev1", "hi")))

	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	got := r.postSlack(path, slackSecret, slackEvent("T1", "Ev2", "hi"))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || got.body != "" {
		t.Errorf("a good delivery: %d %q %v", got.status, got.body, got.header)
	}
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("the vendor waited %s", took)
	}
	if got := r.postSlack(path, "stranger", slackEvent("T1", "Ev3", "hi")); got.status != http.StatusServiceUnavailable {
		t.Errorf("a mismatch that cannot be confirmed: %d, want 503", got.status)
	}

	// Handshakes need no database.
	verification := `{"token":"t","challenge":"c0ffee","type":"url_verification"}`
	if got := r.postSlack(path, slackSecret, verification); got.status != 200 || got.body != "c0ffee" {
		t.Errorf("url_verification: %d %q", got.status, got.body)
	}
	if got := r.post(path, []byte("ssl_check=1&token=t"), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}); got.status != 200 || got.body != "" {
		t.Errorf("ssl_check: %d %q", got.status, got.body)
	}
	res, err := r.client.Get(r.url + "/webhooks/nylas/sources/any?challenge=bc609b38-c81f")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 200 || string(text) != "bc609b38-c81f" || len(res.TransferEncoding) != 0 || res.ContentLength != int64(len(text)) {
		t.Errorf("challenge: %d %q %v", res.StatusCode, text, res.TransferEncoding)
	}

	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		got := r.postSlack(path, slackSecret, slackEvent("T1", "Ev2", "hi"))
		if got.status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not recovered: %d", got.status)
		}
	}
	r.pool.Reset()
	for _, id := range []string{"Ev1", "Ev2"} { // acknowledged before the crash, and after it
		r.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries WHERE delivery_key LIKE '%/' || $1`, id)
	}
	r.conserved()
}

func TestAStalledBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	r := startGateway(t, func(c *configs.Config) { c.ReadTimeout = 100 * time.Millisecond })
	one, _ := slackTown(r)
	body := []byte(slackEvent("T1", "Ev1", "hi"))
	for _, tt := range []struct {
		name    string
		headers http.Header
		status  int
		reason  string
	}{
		{"signed", slack.Sign(slackSecret, time.Now(), body), http.StatusRequestTimeout, "slow"},
		{"unsigned", http.Header{}, http.StatusUnauthorized, "unsigned"},
		{"a form that may be a probe", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, http.StatusUnauthorized, "unsigned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := r.metric(`gateway_requests_rejected_total{provider="slack",reason="` + tt.reason + `"}`)
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", providers.JobPath("slack", one.ID), len(body))
			_ = tt.headers.Write(conn)
			fmt.Fprintf(conn, "\r\n%s", body[:20])
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d", res.StatusCode, tt.status)
			}
			if n := r.metric(`gateway_requests_rejected_total{provider="slack",reason="` + tt.reason + `"}`); n != before+1 {
				t.Errorf("%v more rejected as %s, want 1", n-before, tt.reason)
			}
		})
	}
}
