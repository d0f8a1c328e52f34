package failover

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/test/binary"
)

// Every acknowledged delivery is in the inbox once, whichever server died, and no gateway needs a restart.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	both := c.url()
	name := c.newAddress()
	gateways := []*binary.Serving{c.serve(both), c.serve(name.url())}
	l := startLoad(t, gateways)
	l.until(http.StatusOK, 50)

	step := func(what string, do func()) {
		t.Helper()
		l.until(http.StatusOK, 1)
		began := time.Now()
		do()
		l.until(http.StatusOK, 1)
		t.Logf("%s: both gateways acknowledge again after %s", what, time.Since(began).Round(time.Millisecond))
		l.until(http.StatusOK, 50)
	}
	step("connections cut", func() {
		c.exec(c.primary, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	})
	step("read-only for a while", func() {
		c.set("default_transaction_read_only", "on")
		l.until(http.StatusServiceUnavailable, senders)
		c.set("default_transaction_read_only", "off")
	})
	step("standby away, waits cancelled, primary dead", func() {
		c.stopStandby()
		l.until(http.StatusServiceUnavailable, senders)
		c.exec(c.primary, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		l.until(http.StatusServiceUnavailable, senders) // rows that became visible now are repeated
		c.failOver()
		name.move(c.primary)
	})
	step("the dead server back as the standby", func() { c.rejoin() })
	step("primary dead again", func() {
		c.failOver()
		name.move(c.primary)
	})

	acked, stored := l.end(), c.stored()
	for id := range acked {
		if stored[id] != 1 {
			t.Errorf("delivery %s was acknowledged and is stored %d times", id, stored[id])
		}
	}
	if len(stored) != len(acked) || len(acked) < 500 {
		t.Errorf("%d acknowledged, %d stored", len(acked), len(stored))
	}
	t.Logf("%d deliveries acknowledged", len(acked))
}

func (c *cluster) set(name, value string) {
	c.Helper()
	if err := c.primary.Set(context.Background(), name, value); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) stopStandby() {
	c.Helper()
	if err := c.standby.Stop(); err != nil {
		c.Fatal(err)
	}
}

// address moves from one server to another, like the DNS name or the proxy of a managed service.
type address struct {
	c        *cluster
	listener net.Listener

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func (c *cluster) newAddress() *address {
	c.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	a := &address{c: c, listener: listener, conns: make(map[net.Conn]bool)}
	a.move(c.primary)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { a.pass(conn) })
		}
	})
	c.Cleanup(func() {
		listener.Close()
		a.cut()
		serving.Wait()
	})
	return a
}

// move sends new connections to the server, and ends the existing ones.
func (a *address) move(to *pgtest.Server) {
	server, err := url.Parse(to.URL(pgtest.Database))
	if err != nil {
		a.c.Fatal(err)
	}
	a.mu.Lock()
	a.to = server.Host
	a.mu.Unlock()
	a.cut()
}

func (a *address) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.conns {
		conn.Close()
	}
}

func (a *address) pass(conn net.Conn) {
	defer conn.Close()
	a.mu.Lock()
	to := a.to
	a.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	a.mu.Lock()
	a.conns[conn], a.conns[server] = true, true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.conns, conn)
		delete(a.conns, server)
	}()
	go func() {
		_, _ = io.Copy(server, conn) // until either end closes
		server.Close()
	}()
	_, _ = io.Copy(conn, server)
}

func (a *address) url() string {
	server, err := url.Parse(a.c.primary.URL(pgtest.Database))
	if err != nil {
		a.c.Fatal(err)
	}
	server.Host = a.listener.Addr().String()
	return server.String()
}
