package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
	"webhook-gateway/test/binary"
)

// process is the built binary, serving on a PostgreSQL that flushes.
type process struct {
	*running
	server *pgtest.Server
	cmd    *exec.Cmd
	env    []string
}

// newProcess makes a database, migrates it with the binary and starts serve.
func newProcess(t *testing.T) *process {
	t.Helper()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := server.URL(pgtest.Database)
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	keys, err := jobs.NewKeys(testKey)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		server: server,
		running: &running{t: t, pool: pool, store: jobs.NewStore(pool, keys),
			client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}},
		env: binary.Env(url, testKey, t.TempDir(), "GATEWAY_SETTLE_TIMEOUT=20s"), // on a machine that is busy
	}
	t.Cleanup(p.client.CloseIdleConnections)
	if out, err := p.command("migrate", "up", "--json").Output(); err != nil {
		t.Fatalf("migrate up: %v: %s", err, out)
	}
	p.start().Discard()
	return p
}

func (p *process) command(args ...string) *exec.Cmd {
	p.t.Helper()
	path, err := binary.Path()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = p.env
	return cmd
}

// start runs serve until the test ends, and waits until it says where it listens.
func (p *process) start() *binary.Serving {
	p.t.Helper()
	p.cmd = p.command("serve")
	serving, err := binary.Serve(p.cmd)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p.url, p.admin = serving.URL, serving.Admin
	return serving
}

// stop ends serve as an operator does.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("serve did not end cleanly: %v", err)
	}
}

// loaded is what load sent: ids that were acknowledged, and ids by every other status than 200; 0 is a connection that
// was refused or cut.
type loaded struct {
	acked  []string
	others map[int][]string
}

// load sends distinct deliveries from a few senders, each until it gets no answer.
func (p *process) load() loaded {
	var mu sync.Mutex
	s := loaded{others: make(map[int][]string)}
	atOnce(8, func(i int) {
		for n := 0; ; n++ {
			id := fmt.Sprintf("%d-%d", i, n)
			got := p.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", id, 1))
			mu.Lock()
			if got.status == http.StatusOK {
				s.acked = append(s.acked, id)
			} else {
				s.others[got.status] = append(s.others[got.status], id)
			}
			mu.Unlock()
			if got.status == 0 {
				return
			}
		}
	})
	return s
}

// missing lists the ids that are not in the inbox exactly once.
func (p *process) missing(ids []string) []string {
	p.t.Helper()
	rows, err := p.pool.Query(context.Background(), `SELECT delivery_key FROM agent.webhook_deliveries`)
	if err != nil {
		p.t.Fatal(err)
	}
	defer rows.Close()
	found := make(map[string]int)
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			p.t.Fatal(err)
		}
		_, id, _ := strings.Cut(key, "/")
		found[id]++
	}
	var wrong []string
	for _, id := range ids {
		if found[id] != 1 {
			wrong = append(wrong, id)
		}
	}
	return wrong
}

func TestAcknowledgedIsStored(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		clean  bool
	}{
		{"SIGTERM", syscall.SIGTERM, true},
		{"SIGINT", syscall.SIGINT, true},
		{"kill -9", syscall.SIGKILL, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t)
			nylasTown(p.running)
			done := make(chan loaded, 1)
			go func() { done <- p.load() }()
			for p.count(`SELECT count(*) FROM agent.webhook_deliveries`) < 200 {
			}
			if err := p.cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			err := p.cmd.Wait()
			got := <-done
			if tt.clean && err != nil {
				t.Errorf("exit: %v, want status 0", err)
			}
			unanswered := got.others[0]
			if delete(got.others, 0); len(got.others) > 0 {
				t.Errorf("answered otherwise: %v", got.others)
			}
			if wrong := p.missing(got.acked); len(wrong) > 0 || len(got.acked) < 100 {
				t.Errorf("%d of %d acknowledged deliveries are not in the inbox once: %v", len(wrong), len(got.acked), wrong)
			}

			// The vendor sends again what was not acknowledged, and some of what was.
			p.start().Discard()
			again := append(unanswered, got.acked[:10]...)
			for _, id := range again {
				p.ack(p.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", id, 2)))
			}
			if wrong := p.missing(append(again, got.acked...)); len(wrong) > 0 {
				t.Errorf("after the vendor's repeats these are not in the inbox once: %v", wrong)
			}
		})
	}
}

func TestStalledLogReader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then func(log io.ReadCloser)
	}{
		{"whatever reads it stands still", func(io.ReadCloser) {}}, // a pipe takes 64 KiB, some 200 lines
		{"whatever reads it is gone", func(log io.ReadCloser) { _ = log.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t)
			nylasTown(p.running)
			p.stop()
			tt.then(p.start().Log)
			atOnce(8, func(sender int) {
				for n := range 100 {
					got := p.postNylas("/webhooks/nylas/sources/main", nylasSecret, nylasMessage("G1", fmt.Sprintf("%d-%d", sender, n), 1))
					if got.status != http.StatusOK {
						t.Errorf("delivery %d of sender %d: status %d", n, sender, got.status)
						return
					}
				}
			})
			p.wantCount(800, `SELECT count(*) FROM agent.webhook_deliveries`)
			p.stop()
		})
	}
}

// vector is a request that a vendor, or its SDK, publishes with the secret that signed it.
type vector struct {
	Name, Secret, Body string
	Verifies           bool
}

func TestVectorsReceived(t *testing.T) {
	t.Parallel()
	p := newProcess(t)
	for _, provider := range []string{"nylas", "slack"} {
		var list []vector
		if err := json.Unmarshal(readFile(t, "../../providers/"+provider+"/testdata/vectors.json"), &list); err != nil {
			t.Fatal(err)
		}
		for i, v := range list {
			t.Run(provider+"/"+v.Name, func(t *testing.T) {
				p.t = t
				job := p.addJob(jobs.NewJob{Provider: provider, Secret: p.secret(v.Secret)})
				headers := []http.Header{nylas.Sign(v.Secret, []byte(v.Body))}
				if provider == "slack" {
					headers[0] = slack.Sign(v.Secret, time.Now(), []byte(v.Body))
				}
				if strings.Contains(v.Body, "command=") {
					headers = append(headers, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
				}
				got := p.post(providers.JobPath(provider, job.ID), []byte(v.Body), headers...)
				if got.status != http.StatusOK {
					t.Errorf("vector %d: status %d", i, got.status)
				}
				kept, dropped := 1, 0
				switch {
				case strings.Contains(v.Body, "url_verification"):
					kept = 0
					if got.body != "P7sFXA4o3HV2hTx4zb4zcQ9yrvuQs8pDh6EacOxmMRj0tJaXfQFF" {
						t.Errorf("challenge answered with %q", got.body)
					}
				case !strings.HasPrefix(v.Body, "{") && !strings.Contains(v.Body, "="):
					kept, dropped = 0, 1
				}
				p.wantCount(kept, `SELECT count(*) FROM agent.webhook_deliveries WHERE job_id = $1 AND body = $2`, job.ID, []byte(v.Body))
				p.wantCount(dropped, `SELECT count(*) FROM agent.webhook_drops WHERE path_job = $1 AND reason = 'malformed' AND body = $2`, job.ID, []byte(v.Body))
			})
		}
	}
}
