// Package binary is the gateway's binary in tests: built from what lies here, and serving as a user has it serve.
package binary

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ForgetSettings removes the settings of whoever runs the tests from the environment: they are none of the
// tests'. Where PostgreSQL's programs lie stays.
func ForgetSettings() {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "DATABASE_URL" || strings.HasPrefix(name, "GATEWAY_") && name != "GATEWAY_PG_BIN" {
			os.Unsetenv(name)
		}
	}
}

// Build builds the binary into a folder. root is the module's folder.
func Build(ctx context.Context, root, dir string) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(dir, "gateway")); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "./cmd/gateway")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the gateway: %w: %s", err, out)
	}
	return path, nil
}

// Serving is a gateway that receives.
type Serving struct {
	URL   string        // where vendors call
	Admin string        // the URL of the admin listener
	Log   io.ReadCloser // what follows, but for what was read along with that line
}

// Serve starts a command, the binary's serve on ports that the system chooses, and waits until it says where it
// listens. With an error it runs no more.
func Serve(cmd *exec.Cmd, start func(*exec.Cmd) error) (*Serving, error) {
	log, err := cmd.StderrPipe()
	if err == nil {
		err = start(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	var said bytes.Buffer
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		said.Write(append(lines.Bytes(), '\n'))
		var line struct {
			Msg, Listen string
			Admin       string `json:"admin_listen"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "receiving" {
			return &Serving{URL: "http://" + line.Listen, Admin: "http://" + line.Admin, Log: log}, nil
		}
	}
	_ = cmd.Process.Kill() // most likely it has ended
	_ = cmd.Wait()         // what it said is what matters
	return nil, fmt.Errorf("the gateway did not start (reading its log: %v): %s", lines.Err(), &said)
}

// Discard reads the rest of the log in the background.
func (s *Serving) Discard() { go func() { _, _ = io.Copy(io.Discard, s.Log) }() }
