// Package failover runs gateways through failovers of a real PostgreSQL with a synchronous standby, under load.
package failover

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/jobs"
	"webhook-gateway/test/binary"
)

func TestMain(m *testing.M) { binary.Main(m) }

const (
	secret = "failover-secret"
	grant  = "G1"
)

var secretsKey = base64.StdEncoding.EncodeToString(make([]byte, 32))

// cluster is a primary with a synchronous standby, and a registered source and job.
type cluster struct {
	*testing.T
	primary, standby *pgtest.Server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, primary: pgtest.NewServer(t, pgtest.Options{Fsync: true})}
	pool := c.pool(c.primary)
	keys, err := jobs.NewKeys(secretsKey)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := jobs.NewSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	store := jobs.NewStore(pool, keys)
	if _, err := store.AddSource(t.Context(), jobs.NewSource{Provider: "nylas", Name: "main", Secret: signing}); err != nil {
		t.Fatal(err)
	}
	_, err = store.AddJob(t.Context(), jobs.NewJob{
		Provider: "nylas", Organization: uuid.New(), Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: grant}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.standby = pgtest.NewStandby(t, c.primary)
	c.replicate()
	return c
}

func (c *cluster) pool(s *pgtest.Server) *pgxpool.Pool {
	c.Helper()
	pool, err := pgxpool.New(context.Background(), s.URL(pgtest.Database))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(pool.Close)
	return pool
}

// replicate makes the primary wait for the standby from now on.
func (c *cluster) replicate() {
	c.Helper()
	if err := c.primary.Set(context.Background(), "synchronous_standby_names", "*"); err != nil {
		c.Fatal(err)
	}
	c.await(c.primary, `SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'`)
}

// await waits until a query answers true.
func (c *cluster) await(s *pgtest.Server, sql string) {
	c.Helper()
	pool := c.pool(s)
	defer pool.Close()
	for is := false; !is; {
		if err := pool.QueryRow(c.Context(), sql).Scan(&is); err != nil {
			c.Fatalf("%s: %v", sql, err)
		}
	}
}

func (c *cluster) exec(s *pgtest.Server, sql string) {
	c.Helper()
	pool := c.pool(s)
	defer pool.Close()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		c.Fatalf("%s: %v", sql, err)
	}
}

// failOver crashes the primary, and promotes the standby with the data that it has.
func (c *cluster) failOver() {
	c.Helper()
	if err := c.primary.Crash(); err != nil {
		c.Fatal(err)
	}
	if err := c.standby.Start(context.Background()); err != nil {
		c.Fatal(err)
	}
	if err := c.standby.Promote(context.Background()); err != nil {
		c.Fatal(err)
	}
	c.primary, c.standby = c.standby, c.primary
}

// rejoin turns the dead server into a synchronous standby of the primary.
func (c *cluster) rejoin() {
	c.Helper()
	if err := c.standby.Rejoin(context.Background(), c.primary); err != nil {
		c.Fatal(err)
	}
	c.replicate()
}

// url names both servers, as DATABASE_URL does for a PostgreSQL that fails over.
func (c *cluster) url() string {
	c.Helper()
	one, err := url.Parse(c.primary.URL(pgtest.Database))
	if err != nil {
		c.Fatal(err)
	}
	two, err := url.Parse(c.standby.URL(pgtest.Database))
	if err != nil {
		c.Fatal(err)
	}
	one.Host += "," + two.Host
	one.RawQuery += "&target_session_attrs=read-write"
	return one.String()
}

// serve starts a gateway that runs until the test ends, even without a database.
func (c *cluster) serve(databaseURL string) *binary.Serving {
	c.Helper()
	path, err := binary.Path()
	if err != nil {
		c.Fatal(err)
	}
	cmd := exec.Command(path, "serve")
	cmd.Env = binary.Env(databaseURL, secretsKey, c.TempDir())
	serving, err := binary.Serve(cmd)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	serving.Discard()
	return serving
}

// stored counts the rows of each delivery in the inbox.
func (c *cluster) stored() map[string]int {
	c.Helper()
	rows, err := c.pool(c.primary).Query(context.Background(), `SELECT delivery_key FROM agent.webhook_deliveries`)
	if err != nil {
		c.Fatal(err)
	}
	defer rows.Close()
	found := make(map[string]int)
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			c.Fatal(err)
		}
		_, id, _ := strings.Cut(key, "/")
		found[id]++
	}
	if err := rows.Err(); err != nil {
		c.Fatal(err)
	}
	return found
}

func message(id string, attempt int) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":%q,"webhook_delivery_attempt":%d,
		"data":{"application_id":"A","object":{"grant_id":%q,"id":"m","object":"message","subject":"hi"}}}`, id, attempt, grant)
}
