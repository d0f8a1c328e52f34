package watch

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/jobs"
	"webhook-gateway/test/binary"
)

// Gateway is a running gateway.
type Gateway struct {
	URL      string // where vendors call
	Admin    string // host and port of the admin listener
	Database string // its URL
	Pool     *pgxpool.Pool
	Store    *jobs.Store

	cmd *exec.Cmd
}

// StartGateway runs the binary on a migrated database, with further settings. Stop ends it.
func StartGateway(ctx context.Context, path, database, dir string, settings ...string) (*Gateway, error) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
	keys, err := jobs.NewKeys(key)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("open the gateway's database: %w", err)
	}
	g := &Gateway{Database: database, Pool: pool, Store: jobs.NewStore(pool, keys), cmd: exec.Command(path, "serve")}
	g.cmd.Env = binary.Env(database, key, filepath.Join(dir, "state"), settings...)
	serving, err := binary.Serve(g.cmd)
	if err != nil {
		pool.Close()
		return nil, err
	}
	g.URL, g.Admin = serving.URL, strings.TrimPrefix(serving.Admin, "http://")
	serving.Discard()
	return g, nil
}

// PID returns the id of the process.
func (g *Gateway) PID() int { return g.cmd.Process.Pid }

// Ready waits until the gateway says that it receives.
func (g *Gateway) Ready(ctx context.Context) error {
	return until(ctx, "the gateway is ready", func() (bool, error) {
		res, err := http.Get("http://" + g.Admin + "/readyz")
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
}

// Metrics returns one scrape, in the plain text format.
func (g *Gateway) Metrics(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("scrape the gateway: %w", err)
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// Stop ends the gateway and waits for it.
func (g *Gateway) Stop() error {
	defer g.Pool.Close()
	return end(g.cmd, "the gateway")
}

// end asks a process to end, waits for it, and kills it after a while.
func end(cmd *exec.Cmd, name string) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return nil
}
