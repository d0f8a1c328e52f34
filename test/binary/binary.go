// Package binary builds the gateway's binary for tests, and runs it like a user.
package binary

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"webhook-gateway/internal/pgtest"
)

// Main is for TestMain: it removes the gateway's settings from the environment, runs the tests, stops their shared
// PostgreSQL, removes the binary that they built, and ends the process.
func Main(m pgtest.M) {
	ForgetSettings()
	status := pgtest.Stopping(m).Run()
	if dir != "" {
		_ = os.RemoveAll(dir) // the tests are over
	}
	os.Exit(status)
}

// ForgetSettings removes the gateway's settings from the environment, except GATEWAY_PG_BIN.
func ForgetSettings() {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "DATABASE_URL" || strings.HasPrefix(name, "GATEWAY_") && name != "GATEWAY_PG_BIN" {
			os.Unsetenv(name)
		}
	}
}

// dir is the folder of the binary, once it is built.
var dir string

var built = sync.OnceValues(func() (path string, err error) {
	if dir, err = os.MkdirTemp("", "gateway-binary-"); err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "gateway")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "webhook-gateway/cmd/gateway").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the gateway: %w: %s", err, out)
	}
	return path, nil
})

// Path returns the binary, which the first call in a process builds from this module. Every user may run it. Main
// removes it.
func Path() (string, error) { return built() }

// Env returns the environment of a gateway that uses free ports and keeps its state in stateDir. Later settings
// override earlier ones.
func Env(databaseURL, secretsKey, stateDir string, settings ...string) []string {
	return append(append(os.Environ(), "DATABASE_URL="+databaseURL, "GATEWAY_SECRETS_KEY="+secretsKey, "GATEWAY_STATE_DIR="+stateDir,
		"GATEWAY_LISTEN=127.0.0.1:0", "GATEWAY_ADMIN_LISTEN=127.0.0.1:0"), settings...)
}

// FreeAddress returns a free address on loopback, for programs that cannot choose one.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Serving is a running gateway.
type Serving struct {
	URL   string        // where vendors call
	Admin string        // the URL of the admin listener
	Log   io.ReadCloser // the rest of the log, except what was buffered with the line that Serve waited for
}

// Serve starts a command that runs the gateway's serve, and waits until it logs its addresses. When it returns an
// error, the command has ended.
func Serve(cmd *exec.Cmd) (*Serving, error) {
	log, err := cmd.StderrPipe()
	if err == nil {
		err = Start(cmd)
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
	_ = cmd.Process.Kill() // it has probably ended
	_ = cmd.Wait()         // its log explains more than its status
	return nil, fmt.Errorf("the gateway did not start (reading its log: %v): %s", lines.Err(), &said)
}

// Discard reads the rest of the log in the background.
func (s *Serving) Discard() { go func() { _, _ = io.Copy(io.Discard, s.Log) }() }
