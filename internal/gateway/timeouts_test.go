package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/internal/connections"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// nothing is a directory in which there is nothing.
type nothing struct{}

func (nothing) Current() *jobs.Snapshot                  { return jobs.NewSnapshot(nil, nil) }
func (nothing) Refresh(context.Context, time.Time) error { return nil }

// pipes is a listener of connections within the process, whose time can be a test's.
type pipes struct {
	net.Listener
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// onPipe runs the public server in a test's own time, with a client's end of a connection.
func onPipe(t *testing.T, open bool, client func(net.Conn)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendors := []providers.Provider{slack.New(), nylas.New()}
		names := []string{"nylas", "slack"}
		log := slog.New(slog.DiscardHandler)
		gate := providers.NewGate(vendors, nothing{}, nil, drops.NewLedger(names), 1<<20)
		g := &Gateway{Base: Base{Config: configs.Config{ReadTimeout: 10 * time.Second, SettleTimeout: 2500 * time.Millisecond}, Log: log}}
		g.receiver = providers.NewReceiver(vendors, gate, providers.Limits{
			Body: 1 << 20, BodyBudget: 1 << 20, Read: g.Config.ReadTimeout, Settle: g.Config.SettleTimeout,
		}, providers.Deps{Registerer: prometheus.NewRegistry(), Log: log})
		g.connections = connections.New(64, g.receiver.Shed, prometheus.NewRegistry())
		g.open.Store(open)
		server, listener := g.publicServer(), &pipes{conns: make(chan net.Conn)}
		done := make(chan error)
		go func() { done <- server.Serve(listener) }()
		near, far := net.Pipe()
		listener.conns <- far
		client(near)
		_ = near.Close()
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// Each wait for a client that does nothing ends, after as long as it is meant to last.
func TestNoClientIsWaitedForLong(t *testing.T) {
	t.Parallel()
	const stalled = "POST /webhooks/nylas/sources/main HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
	signed := stalled + "X-Nylas-Signature: " + strings.Repeat("0", 64) + "\r\n\r\n{"
	for _, tt := range []struct {
		name, sent string
		open       bool
		status     int
		wait       time.Duration // until the connection is closed
	}{
		{"nothing comes", "", true, 0, 10 * time.Second},
		{"the head does not end", "POST / HTTP/1.1\r\nHost:", true, 0, 10 * time.Second},
		{"the body does not end", signed, true, 408, 10 * time.Second},
		{"the body does not end before the start is over", signed, false, 503, 20 * time.Second},
		{"an unsigned body does not end", stalled + "\r\n{", true, 401, 500 * time.Millisecond},
		{"no further request comes", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, 404, 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onPipe(t, tt.open, func(conn net.Conn) {
				began := time.Now()
				if _, err := io.WriteString(conn, tt.sent); err != nil {
					t.Fatal(err)
				}
				in, status := bufio.NewReader(conn), 0
				if res, err := http.ReadResponse(in, nil); err == nil {
					status = res.StatusCode
				}
				if _, err := in.ReadByte(); err == nil {
					t.Error("the connection is not closed")
				}
				took := time.Since(began)
				if status != tt.status || took < tt.wait || took > tt.wait+time.Second {
					t.Errorf("answered %d, closed after %v; want %d, %v", status, took, tt.status, tt.wait)
				}
			})
		})
	}
}

func TestUnreadAnswerGivenUp(t *testing.T) {
	onPipe(t, true, func(conn net.Conn) {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		const limit = 22500 * time.Millisecond
		time.Sleep(limit - time.Millisecond)
		synctest.Wait()
		if _, err := conn.Write(nil); err != nil {
			t.Errorf("closed before its time: %v", err)
		}
		time.Sleep(time.Second)
		if n, err := io.ReadAll(conn); len(n) > 0 {
			t.Errorf("read %q (%v) after %v, want nothing", n, err, limit+time.Second)
		}
	})
}
