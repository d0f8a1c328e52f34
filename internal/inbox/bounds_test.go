package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
)

func TestQueueCountsItemSize(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 4000)
	for _, tt := range []struct {
		name string
		hold func(*providers.Item)
	}{
		{"a part of an inflated body", func(i *providers.Item) { i.Body = []byte(large) }},
		{"an id", func(i *providers.Item) { i.VendorID = "1" + large }},
		{"a type", func(i *providers.Item) { i.Type = large }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			options := defaults
			options.QueueBytes = 6000
			w := newWorld(t, options)
			unlock := w.lock("1")
			ended := make(chan string, 2)
			send := func() error {
				item := w.item("1", "a")
				tt.hold(&item)
				work := w.request(w.item("1", "a"), item)
				work.Request.ContentEncoding = "gzip"
				return w.box.Settle(work, func(e []providers.Ending) { ended <- say(e[0]) })
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if err := send(); !errors.Is(err, providers.ErrOverloaded) {
				t.Errorf("over the bound: %v, want ErrOverloaded", err)
			}
			unlock()
			if end := <-ended; end != accepted {
				t.Errorf("ended as %s", end)
			}
		})
	}
}

func TestDropsSettledAloneShareBody(t *testing.T) {
	t.Parallel()
	c := &cutter{}
	w := newWorld(t, defaults, c.edit)
	items := []providers.Item{w.item("1", "a")}
	want := []string{accepted}
	for range 20 {
		items = append(items, providers.Item{Reason: drops.UnknownJob})
		want = append(want, string(drops.UnknownJob))
	}
	c.before.Store(1)
	w.wantEndings(w.settle(w.request(items...)), want...)
	w.wantRows(1, 1, 20)
	if n := w.count(`SELECT count(*) FROM agent.webhook_drops WHERE body IS NOT NULL`); n != 1 {
		t.Errorf("the request is kept %d times, want once", n)
	}
}

func TestPoisonAmongDrops(t *testing.T) {
	t.Parallel()
	c := &cutter{}
	w := newWorld(t, defaults, c.edit)
	w.exec(`ALTER TABLE agent.webhook_drops ADD CONSTRAINT poison CHECK (event_type <> 'poison')`)
	items := []providers.Item{w.item("1", "a")}
	want := []string{accepted}
	for i := range 7 {
		drop, end := providers.Item{Reason: drops.UnknownJob}, string(drops.UnknownJob)
		if i == 3 {
			drop.Type, end = "poison", failed
		}
		items, want = append(items, drop), append(want, end)
	}
	c.before.Store(1)
	w.wantEndings(w.settle(w.request(items...)), want...)
	w.wantRows(1, 1, 6)
}

func TestReadOnlyConnectionsClosed(t *testing.T) {
	t.Parallel()
	// What a pool is left with after a failover: connections to a server that has become a standby.
	url := pgtest.New(t)
	w := worldOn(t, url, defaults)
	database := pgx.Identifier{w.pool.Config().ConnConfig.Database}.Sanitize()
	w.exec(`ALTER DATABASE ` + database + ` SET default_transaction_read_only = on`)
	moved := worldOn(t, url, defaults)
	work := moved.request(moved.item("1", "a"))
	work.Deadline = time.Now().Add(300 * time.Millisecond)
	moved.wantEndings(moved.settle(work), failed)
	w.exec(`BEGIN READ WRITE; ALTER DATABASE ` + database + ` RESET default_transaction_read_only; COMMIT`)
	moved.wantEndings(moved.settle(moved.request(moved.item("1", "a"))), accepted)
}

// mute is a network on which the connections there are can go silent: nothing is refused, nothing answered.
type mute struct {
	mu    sync.Mutex
	conns []*muteConn
}

type muteConn struct {
	net.Conn
	silent atomic.Bool
}

func (m *mute) edit(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		c := &muteConn{Conn: conn}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.conns = append(m.conns, c)
		return c, err
	}
}

// silence has every connection go silent, and returns how many there are.
func (m *mute) silence() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.silent.Store(true)
	}
	return len(m.conns)
}

func (c *muteConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		if p[0] == 'X' { // the farewell, after which the client waits for the server to hang up
			c.Conn.Close()
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestSilentServerOneTimeout(t *testing.T) {
	t.Parallel()
	m := &mute{}
	w := newWorld(t, defaults, m.edit)
	// Everything that waits for a lock has its own connection.
	unlock := w.lock("1")
	var waiting []<-chan []string
	for range 8 {
		waiting = append(waiting, w.begin(w.request(w.item("1", "a"))))
	}
	w.await(`SELECT count(*) >= 6 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	unlock()
	for _, ended := range waiting {
		<-ended
	}
	if n := m.silence(); n < 6 {
		t.Fatalf("%d connections", n)
	}
	gone := time.Now()
	for n := 0; ; n++ {
		work := w.request(w.item(fmt.Sprint("after", n), "a"))
		work.Deadline = time.Now().Add(time.Second)
		if end := w.settle(work); end[0] == accepted {
			break
		}
		if time.Since(gone) > 14*time.Second {
			t.Fatalf("nothing is kept yet after %s", time.Since(gone))
		}
	}
}
