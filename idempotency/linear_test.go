package idempotency_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

const (
	leastRounds   = 8
	mostRounds    = 30
	linearClients = 8
	linearSteps   = 16
	linearKeys    = 3
	// An operation whose answer was lost may take effect at any time until the end. Each such operation doubles the
	// checker's work.
	maxLost = 3
)

// historian records the operations of eight clients on a few keys.
type historian struct {
	*bundle
	round   int
	started time.Time
	tokens  atomic.Int64 // given out
	lost    [linearKeys]atomic.Int64
	refs    [linearKeys]idempotency.Ref

	mu      sync.Mutex
	history []porcupine.Operation
}

// record adds an operation that began at call and has ended now.
func (h *historian) record(client int, call int64, in asked, out got) {
	op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: h.now()}
	if out.unknown {
		op.Return = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = append(h.history, op)
}

// shadow adds an operation that may have taken effect until now, beside the one that answered: a statement that was
// sent twice, because its connection was cut, has taken effect at two instants.
func (h *historian) shadow(client int, call int64, in asked) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = append(h.history, porcupine.Operation{ClientId: client, Input: in, Output: got{unknown: true}, Call: call, Return: h.now()})
}

func (h *historian) now() int64 { return int64(time.Since(h.started)) }

// client is one worker. It counts its connections, so that it knows when one was replaced.
type client struct {
	*historian
	n      int
	keys   *idempotency.Service
	dials  *atomic.Int64
	random *rand.Rand
	held   []holding
	minted []minted
}

// holding is a claim that the client has got. It keeps the claim after its end: fences exist for late endings.
type holding struct {
	key, token int
	claim      *idempotency.Claim
}

// minted is an Identity with which the client has claimed.
type minted struct {
	key, token, text int
	who              idempotency.Identity
}

// run makes the operations of a client.
func (c *client) run() {
	for range linearSteps {
		key := c.random.IntN(linearKeys)
		ctx, cancel := context.WithCancel(c.Context())
		if c.random.IntN(12) == 0 && c.lost[key].Add(1) <= maxLost {
			time.AfterFunc(time.Duration(c.random.IntN(1500))*time.Microsecond, cancel)
		}
		switch c.random.IntN(10) {
		case 0, 1, 2, 3:
			c.claimKey(ctx, key, c.random.IntN(12)/11)
		case 4, 5, 6, 7:
			c.endOne(ctx)
		case 8:
			c.readKey(ctx, key, c.random.IntN(6)/5)
		default:
			c.letPass(key)
		}
		cancel()
	}
}

func (c *client) claimKey(ctx context.Context, key, text int) {
	m := minted{key, int(c.tokens.Add(1)), text, idempotency.Mint()}
	if len(c.minted) > 0 && c.random.IntN(5) == 0 { // a repeat of an earlier claim
		m = c.minted[c.random.IntN(len(c.minted))]
	} else {
		c.minted = append(c.minted, m)
	}
	key, token := m.key, m.token
	in := asked{key: key, act: claims, token: token, content: m.text}
	dials, call := c.dials.Load(), c.now()
	o, err := c.keys.ClaimAs(ctx, m.who, c.refs[key], contents[m.text], time.Hour)
	if err != nil {
		c.record(c.n, call, in, got{unknown: true})
		// What a caller that is gone has won is released, later.
		c.record(c.n, call, asked{key: key, act: releases, token: token, gone: true}, got{unknown: true})
		return
	}
	for ; dials < c.dials.Load(); dials++ {
		c.shadow(c.n, call, in)
	}
	out := got{kind: o.Kind, answer: number(o.Answer)}
	if o.Claim != nil {
		out.reclaimed = o.Claim.Reclaimed
		c.held = append(slices.DeleteFunc(c.held, func(h holding) bool { return h.token == token }), holding{key, token, o.Claim})
	}
	c.record(c.n, call, in, out)
}

// endOne completes or releases one of the claims that the client holds or held, or forgets it like a crash.
func (c *client) endOne(ctx context.Context) {
	if len(c.held) == 0 {
		return
	}
	at := c.random.IntN(len(c.held))
	h := c.held[at]
	in := asked{key: h.key, act: releases, token: h.token, reclaimed: h.claim.Reclaimed}
	dials, call := c.dials.Load(), c.now()
	var out got
	var err error
	switch c.random.IntN(9) {
	case 0:
		c.held = append(c.held[:at], c.held[at+1:]...)
		return
	case 1, 2:
		in.act, in.answer = completes, int(c.tokens.Add(1))
		text, _ := json.Marshal(in.answer) // a number
		out.done, err = c.keys.Complete(ctx, h.claim, response(string(text)))
	default:
		out.done, err = c.keys.Release(ctx, h.claim)
	}
	if err != nil {
		out = got{unknown: true}
	} else if in.act == releases && c.dials.Load() != dials {
		c.shadow(c.n, call, in) // the repeat of a release can only say that the row is gone
		return
	}
	c.record(c.n, call, in, out)
}

func (c *client) readKey(ctx context.Context, key, text int) {
	call := c.now()
	o, err := c.keys.Read(ctx, c.refs[key], contents[text])
	if err == nil { // a failed one says nothing and does nothing
		c.record(c.n, call, asked{key: key, act: reads, content: text}, got{kind: o.Kind, answer: number(o.Answer)})
	}
}

// letPass lets a lease pass. It moves the row, because the database's clock cannot be set.
func (c *client) letPass(key int) {
	call := c.now()
	c.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = clock_timestamp()
	         WHERE status = 'processing' AND organization_id = $1 AND key = $2`, c.org, c.refs[key].Key.String())
	c.record(c.n, call, asked{key: key, act: passes}, got{})
}

var contents = [2]idempotency.Fingerprint{content("1"), content("2")}

// number returns the answer with which a key was completed.
func number(a idempotency.Answer) int {
	var n int
	_ = json.Unmarshal(a.Response, &n) // no answer is 0
	return n
}

// cut ends the sessions of clients until the round is over.
func (h *historian) cut(ctx context.Context, cuts *atomic.Int64) {
	for ctx.Err() == nil {
		tag, err := h.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'linear' AND datname = current_database() ORDER BY state = 'active' DESC, random() LIMIT 1`)
		if err == nil {
			cuts.Add(tag.RowsAffected())
		}
		select {
		case <-ctx.Done():
		case <-time.After(40 * time.Millisecond):
		}
	}
}

// Claims, completions, releases and reads of eight clients that are cut off, cancelled and forgetful each take effect
// at one instant.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var cuts atomic.Int64
	seen := make(map[string]int)
	clients := make([]*client, linearClients)
	for n := range clients {
		dials := new(atomic.Int64)
		pool := open(t, b.url, func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["application_name"] = "linear"
			c.AfterConnect = func(context.Context, *pgx.Conn) error { dials.Add(1); return nil }
		})
		clients[n] = &client{n: n, dials: dials, keys: idempotency.MustService(pool, idempotency.Options{LockWait: 20 * time.Second})}
	}
	started := time.Now()
	for round := range mostRounds {
		if round >= leastRounds && time.Since(started) > 4*time.Second {
			break // a busy machine shows less
		}
		h := &historian{bundle: b, round: round, started: time.Now()}
		for key := range h.refs {
			h.refs[key] = b.ref("tool.x", fmt.Sprint(round, ":", key))
		}
		ctx, stop := context.WithCancel(t.Context())
		var saboteur, workers sync.WaitGroup
		saboteur.Go(func() { h.cut(ctx, &cuts) })
		for n, c := range clients {
			c.historian, c.held, c.minted, c.random = h, nil, nil, rand.New(rand.NewPCG(uint64(round), uint64(n)))
			workers.Go(c.run)
		}
		workers.Wait()
		stop()
		saboteur.Wait()
		h.check(seen)
	}
	t.Logf("%d cuts, %v", cuts.Load(), seen)
	for _, what := range []string{"claim claimed", "claim reclaimed", "claim processing", "claim completed", "claim conflict", "claim unknown",
		"complete done", "complete refused", "release done", "release refused", "release unknown"} {
		if seen[what] == 0 {
			t.Errorf("no history has a %s", what)
		}
	}
	if cuts.Load() == 0 {
		t.Error("no connection was cut")
	}
}

// check judges the history, and counts what it has seen.
func (h *historian) check(seen map[string]int) {
	h.Helper()
	model := oneKey()
	for key, part := range model.Partition(h.history) {
		verdict, info := porcupine.CheckOperationsVerbose(model, part, time.Minute)
		switch verdict {
		case porcupine.Illegal:
			h.Fatalf("round %d: the history of key %d is not linearizable:\n%s", h.round, key, stuck(part, info))
		case porcupine.Unknown:
			h.Fatalf("round %d: the history of key %d, of %d operations, is not decided in a minute", h.round, key, len(part))
		}
	}
	for _, op := range h.history {
		in, out := op.Input.(asked), op.Output.(got)
		what := string(out.kind)
		switch {
		case out.unknown:
			what = "unknown"
		case out.reclaimed:
			what = "reclaimed"
		case what == "" && out.done:
			what = "done"
		case what == "":
			what = "refused"
		}
		seen[string(in.act)+" "+what]++
	}
}
