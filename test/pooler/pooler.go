// Package pooler runs Debian's PgBouncer for tests, with its defaults except the pool mode.
package pooler

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webhook-gateway/test/binary"
)

// Start runs PgBouncer in front of a server until the test ends, and returns the server's URL through it. mode is
// pool_mode: session or transaction.
func Start(t *testing.T, server, mode string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	address, err := binary.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := settings(t, u, mode, address)
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in every user's path
	}
	args := []string{filepath.Join(dir, "pgbouncer.ini")}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // PgBouncer refuses to run as root
	}
	var log bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = dir, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start PgBouncer (scripts/need pgbouncer installs it): %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("PgBouncer ended: %v\n%s", err, &log)
		case <-time.After(10 * time.Millisecond):
		}
	}
	u.Host = address
	return u.String()
}

// settings writes PgBouncer's settings to a folder that any user can enter.
func settings(t *testing.T, server *url.URL, mode, address string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pooler-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	password, _ := server.User.Password()
	host, port, _ := net.SplitHostPort(address)
	for name, text := range map[string]string{
		"users.txt": fmt.Sprintf("%q %q\n", server.User.Username(), password),
		"pgbouncer.ini": strings.Join([]string{
			"[databases]", fmt.Sprintf("* = host=%s port=%s", server.Hostname(), server.Port()),
			"[pgbouncer]", "listen_addr = " + host, "listen_port = " + port, "unix_socket_dir =",
			"auth_type = plain", "auth_file = " + filepath.Join(dir, "users.txt"), "pool_mode = " + mode, "",
		}, "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
