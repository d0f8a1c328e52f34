package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
)

func TestSilentServerGivenUp(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := "postgres://u:s3cret@" + silent.Addr().String() + "/d?sslmode=disable"
	type result struct {
		pool *pgxpool.Pool
		err  error
	}
	done := make(chan result, 1)
	go func() {
		pool, err := connect(t.Context(), url, 4)
		done <- result{pool, err}
	}()
	select {
	case r := <-done:
		if r.err == nil || strings.Contains(r.err.Error(), "s3cret") {
			t.Errorf("connected to a server that says nothing, or told the password: %v", r.err)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("still waiting after 15 s")
	}
}

func TestServerNoticesDeadNetwork(t *testing.T) {
	t.Parallel()
	pool, err := connect(t.Context(), pgtest.New(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var seconds int
	err = pool.QueryRow(t.Context(), `SELECT current_setting('tcp_keepalives_idle')::int
		+ current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int`).Scan(&seconds)
	if err != nil || seconds < 10 || seconds > 60 {
		t.Errorf("a dead connection is noticed after %d s: %v", seconds, err)
	}
}

func TestAStopWhileItStartsIsNoFailure(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if got := callContext(stopped, nil, "serve", "--config", c.file); got.status != exitOK || got.err != "" {
		t.Errorf("ended with status %d: %s", got.status, got.err)
	}
}

func TestStartWithoutNextWeeksDay(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	pool, err := connect(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := inbox.NewPartitions(pool).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	last := "agent.webhook_deliveries_" + time.Now().UTC().AddDate(0, 0, 7).Format("20060102")
	if _, err := pool.Exec(t.Context(), `DROP TABLE `+last); err != nil {
		t.Fatal(err)
	}
	// As ANALYZE does, for as long as it takes.
	if _, err := tx.Exec(t.Context(), `LOCK TABLE agent.webhook_deliveries IN SHARE UPDATE EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	r := startGatewayOn(t, url)
	one, _ := slackTown(r)
	r.ack(r.postSlack(providers.JobPath("slack", one.ID), slackSecret, slackEvent("T1", "Ev1", "hi")))
	r.wantDeliveries(1)
}
