package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/jobs"
	"webhook-gateway/test/binary"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(consumerEnv); what != "" {
		os.Exit(consumerMain(what))
	}
	binary.Main(m)
}

// gateway is the built binary, serving on a private PostgreSQL with fsync.
type gateway struct {
	t      testing.TB
	server *pgtest.Server
	pool   *pgxpool.Pool
	store  *jobs.Store
	url    string
	admin  string
	env    []string
	cmd    *exec.Cmd
	client *http.Client
}

const secretsKey = "\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07"

// newGateway starts a database and a gateway, which end with the test.
func newGateway(t testing.TB, env ...string) *gateway {
	t.Helper()
	key := base64.StdEncoding.EncodeToString([]byte(secretsKey))
	g := &gateway{t: t, server: pgtest.NewServer(t, pgtest.Options{Fsync: true})}
	url := g.server.URL(pgtest.Database)
	var err error
	if g.pool, err = pgxpool.New(context.Background(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.pool.Close)
	keys, err := jobs.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	g.store = jobs.NewStore(g.pool, keys)
	g.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	t.Cleanup(g.client.CloseIdleConnections)
	g.env = append(binary.Env(url, key, t.TempDir(), "GATEWAY_SETTLE_TIMEOUT=20s"), env...) // for a busy machine
	if out, err := g.command("migrate", "up", "--json").CombinedOutput(); err != nil {
		t.Fatalf("migrate up: %v: %s", err, out)
	}
	g.start()
	return g
}

func (g *gateway) command(args ...string) *exec.Cmd {
	g.t.Helper()
	path, err := binary.Path()
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = g.env
	return cmd
}

// start runs serve, and waits until it logs its addresses.
func (g *gateway) start() {
	g.t.Helper()
	g.cmd = g.command("serve")
	serving, err := binary.Serve(g.cmd)
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := g.cmd
	g.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	g.url, g.admin = serving.URL, serving.Admin
	serving.Discard()
}

// stop ends serve as an operator would, and waits for it.
func (g *gateway) stop() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(os.Interrupt); err != nil {
		g.t.Fatal(err)
	}
	if err := g.cmd.Wait(); err != nil {
		g.t.Fatalf("serve ended with %v", err)
	}
}

// target registers a town for the captures, and returns the gateway as their target.
func (g *gateway) target(t testing.TB, list []*Capture, name string) (Target, *town) {
	t.Helper()
	registered := Register(t, g.store, list, name)
	w := &town{Town: registered, gateway: g}
	return Target{URL: g.url, Client: g.client, Places: registered.Places, Watch: w, Update: *update}, w
}

func (g *gateway) families(t testing.TB) []*dto.MetricFamily {
	t.Helper()
	res, err := g.client.Get(g.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer // the rest is long and not needed here
	for line := range bytes.Lines(text) {
		for _, name := range []string{"gateway_deliveries_", "gateway_handshakes_", "gateway_requests_"} {
			if bytes.Contains(line, []byte(name)) && !bytes.HasPrefix(line, []byte("# HELP")) {
				ours.Write(line)
			}
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(&ours)
	if err != nil {
		t.Fatal(err)
	}
	var list []*dto.MetricFamily
	for _, f := range byName {
		list = append(list, f)
	}
	return list
}

// town observes what was sent to a town's places.
type town struct {
	Town
	*gateway

	stored []Stored
	ids    []uuid.UUID // of stored
	xid    string      // of the last one read
}

const newRows = `
SELECT d.xid::text, d.id, d.delivery_key, d.event_type, d.ordering_key, d.request_hash, d.body
  FROM agent.webhook_deliveries AS d
 WHERE d.job_id = ANY($1) AND (d.xid, d.id) > ($2::text::xid8, $3::uuid)
 ORDER BY d.xid, d.id`

// Seen implements Watch.
func (w *town) Seen(t testing.TB) Seen {
	t.Helper()
	families := w.families(t)
	if !Conserved(families) {
		t.Error("deliveries were received that have no ending, or more than one")
	}
	last := uuid.Nil
	if w.xid == "" {
		w.xid = "0"
	} else if len(w.ids) > 0 {
		last = w.ids[len(w.ids)-1]
	}
	rows, err := w.pool.Query(context.Background(), newRows, w.Jobs, w.xid, last)
	if err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	var key string
	var s Stored
	_, err = pgx.ForEachRow(rows, []any{&w.xid, &id, &key, &s.Type, &s.Order, &s.Hash, &s.Body}, func() error {
		s.ID = RowID(key, id.String())
		s.Body = bytes.Clone(s.Body)
		w.stored, w.ids = append(w.stored, s), append(w.ids, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return Seen{Outcomes: OutcomesOf(families), Stored: w.stored, Drops: w.count(t,
		`SELECT count(*) FROM agent.webhook_drops WHERE verifier_id = ANY($1) OR verifier_id = ANY($2)`, w.Sources, w.Jobs)}
}

func (g *gateway) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := g.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
