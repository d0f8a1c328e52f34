package replay

import (
	"bytes"
	"errors"
	"testing"

	"webhook-gateway/idempotency"
)

// TestConsumersActOnce shows the purpose of the whole: each delivery has one effect of each kind, however often and
// concurrently it is sent, and after everything was restarted.
func TestConsumersActOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	list := pick(t, "slack/message-channels", "slack/slash-command", "slack/block-actions", "nylas/message-created", "nylas/message-created-gzip")
	target, town := g.target(t, list, "effects")
	c := newConsumer(t, g.pool, town.Organization)
	n := len(list)

	for _, one := range list {
		sends(t, target, one, 20)
	}
	first := c.together(t, 4)
	wantAnswers(t, n, first...)
	c.wantEffects(t, n)

	for range 3 {
		for _, one := range list {
			sends(t, target, one, 1)
		}
		wantAnswers(t, n, append(first, c.consume(t))...)
	}
	c.wantEffects(t, n)

	t.Run("slower than the vendor's patience", func(t *testing.T) { slowConsumer(t, g) })
	t.Run("a batch of five of which three are known", func(t *testing.T) { knownBatch(t, g) })

	// Everything ends and starts again: the answers are in the database.
	g.stop()
	if err := g.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := g.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.pool.Reset()
	g.start()
	target.URL = g.url
	for _, one := range list {
		sends(t, target, one, 5)
	}
	wantAnswers(t, n, append(first, c.together(t, 2)...)...)
	c.wantEffects(t, n)
	if rows := g.count(t, `SELECT count(*) FROM agent.webhook_deliveries WHERE organization_id = $1`, town.Organization); rows != n {
		t.Errorf("%d rows of the inbox, want %d", rows, n)
	}
}

// slowConsumer blocks a consumer in the middle of its effect while the vendor repeats the delivery.
func slowConsumer(t *testing.T, g *gateway) {
	list := pick(t, "slack/message-im")
	target, town := g.target(t, list, "slow")
	c := newConsumer(t, g.pool, town.Organization)
	c.charges.hold, c.charges.entered = make(chan struct{}), make(chan struct{})
	sends(t, target, list[0], 1)

	done := make(chan map[string]answers, 1)
	go func() { done <- c.consume(t) }()
	<-c.charges.entered // it has begun, and blocks
	sends(t, target, list[0], 10)
	sends(t, target, list[0], 1)
	var d delivered
	row := g.pool.QueryRow(t.Context(), `SELECT xid::text, id, organization_id, delivery_key, body FROM agent.webhook_deliveries WHERE organization_id = $1`, town.Organization)
	if err := row.Scan(&d.XID, &d.ID, &d.Organization, &d.Key, &d.Body); err != nil {
		t.Fatal(err)
	}
	var inFlight *idempotency.InFlightError
	if _, err := c.outside(d, "charge.create", c.charges); !errors.As(err, &inFlight) || inFlight.RetryAfter <= 0 {
		t.Errorf("a second worker meanwhile: %v, want in flight", err)
	}
	close(c.charges.hold)
	first := <-done
	wantAnswers(t, 1, append([]map[string]answers{first}, c.together(t, 3)...)...)
	c.wantEffects(t, 1)
}

// knownBatch sends three of five deliveries, and then all five in one request.
func knownBatch(t *testing.T, g *gateway) {
	list := pick(t, "nylas/deltas-five")
	target, town := g.target(t, list, "batch")
	c := newConsumer(t, g.pool, town.Organization)
	five := list[0]
	parts := five.Deliveries(vendor("nylas"))
	three := *five
	three.SetContent(append(append([]byte(`{"deltas":[`), bytes.Join([][]byte{parts[0].Body, parts[2].Body, parts[4].Body}, []byte(", "))...), "]}"...))

	sends(t, target, &three, 1)
	before := c.consume(t)
	c.wantEffects(t, 3)
	seen := target.watch(t)
	sends(t, target, five, 1)
	var got Result
	seen.fill(&got, target.watch(t))
	if got.Outcomes.String() != "accepted 2, duplicate 3" || got.Rows != 2 {
		t.Errorf("of five: %s, %d rows; want two new ones", got.Outcomes, got.Rows)
	}
	after := c.consume(t)
	c.wantEffects(t, 5)
	for key, a := range before {
		if after[key] != a {
			t.Errorf("the answer of %s has changed", key)
		}
	}
}
