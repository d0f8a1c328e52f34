package watch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/jobs"
)

// Build builds the gateway's binary into the folder. root is the module's.
func Build(ctx context.Context, root, dir string) (binary string, err error) {
	binary = filepath.Join(dir, "gateway")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/gateway")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the gateway: %w: %s", err, out)
	}
	return binary, nil
}

// Gateway is the binary, serving.
type Gateway struct {
	URL      string // where vendors call
	Admin    string // host and port of the admin listener
	Database string // its URL
	Pool     *pgxpool.Pool
	Store    *jobs.Store

	cmd *exec.Cmd
}

// StartGateway runs the binary on a database that is migrated already, with further settings. Stop ends it.
func StartGateway(ctx context.Context, binary, database, dir string, settings ...string) (*Gateway, error) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
	keys, err := jobs.NewKeys(key)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("open the gateway's database: %w", err)
	}
	g := &Gateway{Database: database, Pool: pool, Store: jobs.NewStore(pool, keys), cmd: exec.Command(binary, "serve")}
	g.cmd.Env = append(os.Environ(), append([]string{
		"DATABASE_URL=" + database, "GATEWAY_SECRETS_KEY=" + key, "GATEWAY_STATE_DIR=" + filepath.Join(dir, "state"),
		"GATEWAY_LISTEN=127.0.0.1:0", "GATEWAY_ADMIN_LISTEN=127.0.0.1:0",
	}, settings...)...)
	logged, err := g.cmd.StderrPipe()
	if err == nil {
		err = start(g.cmd)
	}
	if err == nil {
		err = g.listening(logged)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	return g, nil
}

// listening reads the log until it says where the gateway listens; what follows is of no interest.
func (g *Gateway) listening(logged io.Reader) error {
	var said bytes.Buffer
	lines := bufio.NewScanner(logged)
	for lines.Scan() {
		said.Write(append(lines.Bytes(), '\n'))
		var line struct {
			Msg, Listen string
			Admin       string `json:"admin_listen"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "receiving" {
			g.URL, g.Admin = "http://"+line.Listen, line.Admin
			go func() { _, _ = io.Copy(io.Discard, logged) }()
			return nil
		}
	}
	_ = g.cmd.Wait() // what it said is what matters
	return fmt.Errorf("it ended: %s", &said)
}

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

// Metrics is one scrape, in the plain text format.
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

// end asks a process to end and waits for it; after a while it is killed.
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
