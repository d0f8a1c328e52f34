package idempotency_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// wire lets a test cut the connections of a pool.
type wire struct {
	// armed: 0 no, cutBefore: the next statement does not reach the server, cutAfter: the server has executed and
	// committed it, but its answer does not arrive.
	armed atomic.Int32
	cuts  atomic.Int32
	// failing: so many times no connection can be made or used.
	failing atomic.Int32
}

const (
	cutBefore = 1
	cutAfter  = 2
)

type cuttable struct {
	net.Conn
	wire *wire
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.failing.Load() > 0 {
		w.failing.Add(-1)
		return nil, io.ErrClosedPipe
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &cuttable{conn, w}, err
}

func (c *cuttable) Write(p []byte) (int, error) {
	if c.wire.failing.Load() > 0 {
		c.wire.failing.Add(-1)
		_ = c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	if c.wire.armed.CompareAndSwap(cutBefore, 0) {
		c.wire.cuts.Add(1)
		_ = c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(p)
}

// Read cuts when the first byte of the answer arrives: the server sends none before it has committed.
func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.wire.armed.CompareAndSwap(cutAfter, 0) {
		c.wire.cuts.Add(1)
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// onWire gives the bundle a pool of one connection that can be cut. The statements are prepared, so that the cut hits
// their execution.
func onWire(t *testing.T) (*bundle, *wire) {
	t.Helper()
	b, w := setup(t), &wire{}
	cut := open(t, b.url, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DialFunc = w.dial
	})
	b.keys = idempotency.MustService(cut, idempotency.Options{})
	warm := b.ref("webhook.nylas", "warm")
	b.own(warm, content("1"))
	b.pass(lease)
	c := b.own(warm, content("1"))
	b.complete(c, response(`1`))
	b.complete(c, response(`1`))
	b.pass(24 * time.Hour)
	b.release(b.own(warm, content("1")))
	many, err := b.keys.ClaimMany(t.Context(), []idempotency.Wanted{{Ref: warm, Content: content("1")}}, lease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.keys.CompleteMany(t.Context(), []idempotency.Ending{{Claim: many[0].Claim, Answer: response(`1`)}}); err != nil {
		t.Fatal(err)
	}
	b.exec(`DELETE FROM agent.idempotency_keys`)
	return b, w
}

// eachCut runs the test with the connection cut before and after the server has executed the statement.
func eachCut(t *testing.T, test func(b *bundle, cut func())) {
	t.Parallel()
	for name, when := range map[string]int32{"before": cutBefore, "after": cutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, w := onWire(t)
			test(b, func() { w.armed.Store(when) })
			if w.cuts.Load() == 0 || w.armed.Load() != 0 {
				t.Error("nothing was cut")
			}
		})
	}
}

func TestLostAckOfClaim(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		r := b.ref("tool.email.send", "k")
		cut()
		c := b.own(r, content("1"))
		if token := one[string](b, `SELECT lease_token::text FROM agent.idempotency_keys`); token != c.Token.String() || c.Reclaimed {
			b.Errorf("%+v, but the row has token %s", c, token)
		}
		if !b.complete(c, response(`1`)) {
			b.Error("the claim cannot be completed")
		}
	})
}

func TestLostAckOfReclaim(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		r := b.ref("tool.email.send", "k")
		b.own(r, content("1"))
		b.pass(lease)
		// The read that finds the expired claim is one answer, the reclaim the next.
		b.keys = b.keys.After(cut)
		c := b.own(r, content("1"))
		if !c.Reclaimed || !b.complete(c, response(`1`)) {
			b.Errorf("%+v, want a reclaim", c)
		}
	})
}

func TestLostAckOfComplete(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		r := b.ref("tool.email.send", "k")
		c := b.own(r, content("1"))
		cut()
		if !b.complete(c, response(`"first"`)) {
			b.Error("not recorded")
		}
		if o := b.read(r, content("1")); string(o.Answer.Response) != `"first"` {
			b.Errorf("the answer is %s", o.Answer.Response)
		}
	})
}

func TestLostAckOfRelease(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		r := b.ref("tool.email.send", "k")
		c := b.own(r, content("1"))
		cut()
		if !b.release(c) || b.rows() != 0 {
			b.Error("not released")
		}
	})
}

func TestLostAckOfLateRelease(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		r := b.ref("tool.email.send", "k")
		late := b.own(r, content("1"))
		b.pass(lease)
		b.own(r, content("1"))
		cut()
		if b.release(late) || b.rows() != 1 {
			b.Error("another worker's claim was released")
		}
	})
}

func TestLostAckOfClaimMany(t *testing.T) {
	eachCut(t, func(b *bundle, cut func()) {
		var wanted []idempotency.Wanted
		var endings []idempotency.Ending
		for i := range 5 {
			wanted = append(wanted, idempotency.Wanted{Ref: b.ref("tool.x", strconv.Itoa(i)), Content: content("1")})
		}
		cut()
		outcomes, err := b.keys.ClaimMany(b.Context(), wanted, lease)
		if err != nil {
			b.Fatal(err)
		}
		b.wantKinds(outcomes, map[idempotency.Kind]int{idempotency.Claimed: 5})
		for _, o := range outcomes {
			endings = append(endings, idempotency.Ending{Claim: o.Claim, Answer: response(`1`)})
		}
		cut()
		recorded, err := b.keys.CompleteMany(b.Context(), endings)
		if err != nil {
			b.Fatal(err)
		}
		for i, ok := range recorded {
			if !ok {
				b.Errorf("completion %d is not recorded", i)
			}
		}
	})
}

func TestLostAckOfEffects(t *testing.T) {
	t.Parallel()
	b, w := setup(t), &wire{}
	b.journal()
	plain := b.pool
	b.pool = open(b, b.url, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.DialFunc = 1, w.dial })
	b.wantSettled([]idempotency.Item{b.item(b.ref("webhook.nylas", "warm"), "1")}, idempotency.Claimed)
	items := []idempotency.Item{b.item(b.ref("webhook.nylas", "a"), "1"), b.item(b.ref("webhook.nylas", "b"), "1")}
	w.armed.Store(cutAfter)
	if kinds, err := b.settle(b.Context(), items); err == nil {
		t.Errorf("settled as %v without an answer", kinds)
	}
	b.pool = plain
	b.wantEffects(3)
	b.wantSettled(items, idempotency.Claimed, idempotency.Claimed)
	b.wantEffects(3)
}

// The COMMIT is cut off, or its answer is lost: the effect is made once, and the result is this call's.
func TestLostAckOfInTx(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]int32{"before": cutBefore, "after": cutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, w := setup(t), &wire{}
			b.exec(`CREATE TABLE effects (call int)`)
			pool := open(t, b.url, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.DialFunc = 1, w.dial })
			calls := 0
			keys := idempotency.MustService(pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) {
				if e.Op == idempotency.OpComplete && calls == 1 {
					w.armed.Store(when) // the COMMIT is next
				}
			}})
			got, err := idempotency.InTx(t.Context(), keys, task[int](b.ref("tool.x", "k")), func(ctx context.Context, tx pgx.Tx, _ *idempotency.Claim) (int, error) {
				calls++
				_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, calls)
				return 7, err
			})
			if err != nil || got.Value != 7 || got.Replayed || w.cuts.Load() != 1 {
				t.Errorf("%+v, %v after %d cuts, want 7 of this call", got, err, w.cuts.Load())
			}
			if n := one[int](b, `SELECT count(*) FROM effects`); n != 1 {
				t.Errorf("%d effects after %d calls", n, calls)
			}
		})
	}
}

func TestGoneCallerClaimsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.keys.Claim(ctx, b.ref("tool.x", "k"), content("1"), lease); err == nil || b.rows() != 0 {
		t.Errorf("got %v and %d rows", err, b.rows())
	}
}
