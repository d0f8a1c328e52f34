package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/configs"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
)

// serving is serve in this process, on a database of the test's choice.
type serving struct {
	t    *testing.T
	stop context.CancelFunc
	up   chan gateway.Addresses
	down chan error
	log  *bufio.Scanner
}

// startServing runs serve as the command does, every check included.
func startServing(t *testing.T, url string, edit ...string) *serving {
	t.Helper()
	cfg, err := configs.Load("", append([]string{
		"DATABASE_URL=" + url, "GATEWAY_SECRETS_KEY=" + testKey, "GATEWAY_LISTEN=127.0.0.1:0", "GATEWAY_ADMIN_LISTEN=127.0.0.1:0",
		"GATEWAY_STATE_DIR=" + t.TempDir(), "GATEWAY_SETTLE_TIMEOUT=10s",
	}, edit...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	reader, log := io.Pipe()
	s := &serving{t: t, stop: stop, up: make(chan gateway.Addresses, 1), down: make(chan error, 1), log: bufio.NewScanner(reader)}
	go func() {
		s.down <- gateway.Serve(ctx, cfg, vendors(), log, func(a gateway.Addresses) { s.up <- a })
		log.Close()
	}()
	t.Cleanup(func() {
		stop()
		go func() { _, _ = io.Copy(io.Discard, reader) }()
		<-s.down
	})
	return s
}

// line is a line of the log.
type line struct {
	Msg, Listen, Waited, Err string
	Admin                    string `json:"admin_listen"`
}

// logged waits for a line of the log. It fails the test when serve ends before.
func (s *serving) logged(msg string) line {
	s.t.Helper()
	for s.log.Scan() {
		var l line
		if json.Unmarshal(s.log.Bytes(), &l) == nil && l.Msg == msg {
			return l
		}
	}
	s.t.Fatalf("serve ended without logging %q", msg)
	return line{}
}

// refused waits until serve has ended, and returns why. It must not have received.
func (s *serving) refused() error {
	s.t.Helper()
	go func() {
		for s.log.Scan() {
		}
	}()
	select {
	case <-s.up:
		s.t.Error("it receives")
		s.stop()
	case err := <-s.down:
		s.down <- err
		return err
	}
	return nil
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// execOn executes statements on a plain connection.
func execOn(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// wantOn compares one number with the database.
func wantOn(t *testing.T, url string, want int, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var got int
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil || got != want {
		t.Errorf("%d, want %d: %s: %v", got, want, sql, err)
	}
}

func TestServeRefusesAtStart(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := server.URL(pgtest.Database)
	standby := pgtest.NewStandby(t, server)
	tests := []struct {
		name, says string
		status     int
		url        string
		spoil      []string
		mend       []string
	}{
		{name: "standby", says: "it is a standby", status: exitUnreachable, url: standby.URL(pgtest.Database)},
		{name: "fsync off", says: "fsync is off", status: exitUnreachable, url: pgtest.New(t)},
		{name: "wrong password", says: "wrong password, or no such role", status: exitUnreachable,
			url: strings.Replace(url, "@", "x@", 1)},
		{name: "no such database", says: "does not exist", status: exitUnreachable, url: server.URL("missing")},
		{name: "exec mode", says: "default_query_exec_mode=simple_protocol", status: exitConfig, url: url + "&default_query_exec_mode=simple_protocol"},
		{name: "read-only", says: "it accepts no writes", status: exitUnreachable,
			spoil: []string{`ALTER DATABASE gateway SET default_transaction_read_only = on`},
			mend:  []string{`SET default_transaction_read_only = off`, `ALTER DATABASE gateway RESET default_transaction_read_only`}},
		{name: "lacks a migration", says: "lacks 1 migrations: run gateway migrate up", status: exitUnreachable,
			spoil: []string{`CREATE TABLE public.kept AS SELECT * FROM public.agent_migrations WHERE version_id = 5`,
				`DELETE FROM public.agent_migrations WHERE version_id = 5`},
			mend: []string{`INSERT INTO public.agent_migrations OVERRIDING SYSTEM VALUE SELECT * FROM public.kept`, `DROP TABLE public.kept`}},
		{name: "secrets of another key", says: "does not open every stored secret", status: exitConfig,
			spoil: []string{`INSERT INTO agent.provider_sources (id, provider, name, secrets)
				VALUES ('3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e', 'slack', 'main', ARRAY['\x0102030405'::bytea])`},
			mend: []string{`DELETE FROM agent.provider_sources`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := tt.url
			if at == "" {
				at = url
			}
			execOn(t, url, tt.spoil...)
			defer execOn(t, url, tt.mend...)
			err := startServing(t, at).refused()
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
			if got := exitStatus(err); got != tt.status {
				t.Errorf("exit status %d, want %d", got, tt.status)
			}
		})
	}
	s := startServing(t, url)
	s.logged("receiving") // once all is well, it starts
}

func TestServeWaitsForPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := server.URL(pgtest.Database)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := startServing(t, url, "GATEWAY_WAIT_FOR_POSTGRES=false").refused(); exitStatus(err) != exitUnreachable {
		t.Errorf("told not to wait: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := startServing(t, url, "GATEWAY_LISTEN="+taken.Addr().String()).refused(); exitStatus(err) != exitConfig {
		t.Errorf("an address that is taken: %v, want it at once", err)
	}

	s := startServing(t, url)
	waiting := s.logged("waiting for PostgreSQL")
	if waiting.Waited == "" || !strings.Contains(waiting.Err, "connection refused") {
		t.Errorf("logged %+v, want the time and the reason", waiting)
	}
	admin := "http://" + waiting.Admin
	if status, text := get(t, admin+"/livez"); status != 200 {
		t.Errorf("/livez: %d %s", status, text)
	}
	if status, text := get(t, admin+"/readyz"); status != 503 || !strings.Contains(text, "waiting for PostgreSQL") || !strings.Contains(text, "connection refused") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if _, text := get(t, admin+"/metrics"); !strings.Contains(text, "\ngateway_ready 0\n") {
		t.Error("gateway_ready is not 0")
	}
	res, err := http.Post("http://"+waiting.Listen+"/webhooks/slack/sources/main", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("a delivery is answered %d %v", res.StatusCode, res.Header)
	}

	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := s.logged("PostgreSQL answers"); l.Waited == "" {
		t.Errorf("logged %+v, want the time", l)
	}
	s.logged("receiving")
	if status, text := get(t, admin+"/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if _, text := get(t, admin+"/metrics"); !strings.Contains(text, "\ngateway_ready 1\n") || !strings.Contains(text, "\ngateway_db_fsync_off 0\n") {
		t.Error("gateway_ready is not 1, or gateway_db_fsync_off not 0")
	}
}

func TestServeAcceptsFsyncOff(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{Settings: map[string]string{"full_page_writes": "on"}}) // as a provider has it
	s := startServing(t, server.URL(pgtest.Database), "GATEWAY_ACCEPT_FSYNC_OFF=true")
	s.logged("PostgreSQL reports fsync = off, and GATEWAY_ACCEPT_FSYNC_OFF accepts it: " +
		"unless the provider makes commits durable in another way, a crash loses acknowledged deliveries")
	admin := "http://" + s.logged("receiving").Admin
	if _, text := get(t, admin+"/metrics"); !strings.Contains(text, "\ngateway_db_fsync_off 1\n") {
		t.Error("gateway_db_fsync_off is not 1")
	}
}

func TestReadyzWhileServerIsReadOnly(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{})
	r := startGatewayOn(t, server.URL(pgtest.Database), func(c *configs.Config) { c.SettleTimeout = 500 * time.Millisecond })
	one, _ := slackTown(r)
	path := providers.JobPath("slack", one.ID)
	wait := func(status int, text string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; {
			got, why := get(t, r.admin+"/readyz")
			if got == status && why == text {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/readyz: %d %s, want %d %s", got, why, status, text)
			}
		}
	}
	set := func(value string) {
		t.Helper()
		if err := server.Set(t.Context(), "default_transaction_read_only", value); err != nil {
			t.Fatal(err)
		}
	}
	const readOnly = "PostgreSQL takes no writes: default_transaction_read_only is on\n"
	set("on")
	wait(503, readOnly)
	if got := r.metric("gateway_ready"); got != 0 {
		t.Errorf("gateway_ready is %v", got)
	}
	if got := r.postSlack(path, slackSecret, slackEvent("T1", "Ev1", "hi")); got.status != 503 {
		t.Errorf("a delivery is answered %d", got.status)
	}
	set("off")
	wait(200, "ready\n")
	r.ack(r.postSlack(path, slackSecret, slackEvent("T1", "Ev1", "hi")))
	r.wantDeliveries(1)

	// Sessions keep what the database had when they began. They are given up, as after a failover.
	url := server.URL(pgtest.Database)
	execOn(t, url, `ALTER DATABASE gateway SET default_transaction_read_only = on`)
	r.pool.Reset()
	wait(503, readOnly)
	execOn(t, url, `SET default_transaction_read_only = off`, `ALTER DATABASE gateway RESET default_transaction_read_only`)
	wait(200, "ready\n")
}

func TestUnreadyWhileDraining(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	s := startServing(t, pgtest.NewServer(t, pgtest.Options{Fsync: true}).URL(pgtest.Database), "GATEWAY_SHUTDOWN_DELAY="+delay.String())
	at := s.logged("receiving")
	began := time.Now()
	s.stop()
	s.logged("draining")
	for deadline := time.Now().Add(delay); ; {
		status, text := get(t, "http://"+at.Admin+"/readyz")
		if status == 503 && text == "not receiving: draining\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz: %d %s", status, text)
		}
	}
	// Requests are still taken: a load balancer needs a moment to notice.
	if status, text := get(t, "http://"+at.Listen+"/webhooks/nylas/sources/main?challenge=c0ffee"); status != 200 || text != "c0ffee" {
		t.Errorf("a handshake during the delay: %d %s", status, text)
	}
	s.logged("stopped")
	if took := time.Since(began); took < delay {
		t.Errorf("stopped after %s, before the delay of %s", took, delay)
	}
}
