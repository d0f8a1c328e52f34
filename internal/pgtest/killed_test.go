package pgtest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/pgtest"
)

// The test binary runs itself again in another role, to be killed or to be another user.
const (
	childRole = "PGTEST_ROLE"
	childDir  = "PGTEST_DIR"
)

// childT is a pgtest.T outside a test.
type childT struct{ cleanups []func() }

func (t *childT) Helper()          {}
func (t *childT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }
func (t *childT) Fatalf(format string, args ...any) {
	fmt.Printf("child: "+format+"\n", args...)
	os.Exit(1)
}

// child prints the folder of its server, waits for a line on its standard input, and ends or panics.
func child(role string) {
	t := &childT{}
	switch role {
	case "dev":
		s, err := devdb.Start(context.Background(), devdb.Options{Dir: os.Getenv(childDir), Fsync: true})
		if err != nil {
			t.Fatalf("%v", err)
		}
		fmt.Println("ready", s.Dir())
	case "test":
		s := pgtest.NewServerIn(t, os.Getenv(childDir))
		fmt.Println("ready", s.Dir())
	}
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(line) == "panic" {
		panic("as told")
	}
}

// startChild runs this binary in a role and returns it and its server's folder once that runs.
func startChild(t *testing.T, role, dir string, attr *syscall.SysProcAttr) (*exec.Cmd, io.Writer, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if attr != nil {
		self = executableForAll(t, self)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Dir, cmd.SysProcAttr = "/", attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	text := bufio.NewReader(out)
	line, err := text.ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		rest, _ := io.ReadAll(text)
		t.Fatalf("child: %s%s (%v)", line, rest, err)
	}
	return cmd, in, at
}

// executableForAll copies the test binary to where every user can run it: go test's folder is private.
func executableForAll(t *testing.T, self string) string {
	t.Helper()
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pgtest-test-") // not in memory: nothing there may be executed in a container
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pgtest.test")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitEnd waits for a process that is not our child.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("process %d lives", pid)
		}
	}
}

func TestServerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	base := pgtest.Passable(t) // its own, so that no other test's tidying stops what the kernel should have
	pgtest.NewServerIn(t, base)
	ends := map[string]func(*exec.Cmd, io.Writer){
		"killed":      func(c *exec.Cmd, _ io.Writer) { _ = c.Process.Kill() },
		"interrupted": func(c *exec.Cmd, _ io.Writer) { _ = c.Process.Signal(os.Interrupt) },
		"panics":      func(_ *exec.Cmd, in io.Writer) { _, _ = io.WriteString(in, "panic\n") },
		"just ends":   func(_ *exec.Cmd, in io.Writer) { _, _ = io.WriteString(in, "\n") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) { // one by one, for the same reason
			cmd, in, dir := startChild(t, "test", base, nil)
			pid := pgtest.Postmaster(t, filepath.Join(dir, "data"))
			end(cmd, in)
			awaitEnd(t, pid)
			_ = cmd.Wait()

			// The next run tidies up.
			pgtest.NewServerIn(t, base)
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s stays behind: %v", dir, err)
			}
		})
	}
}

func TestStartAfterAKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(pgtest.Passable(t), "pg")
	cmd, _, at := startChild(t, "dev", dir, nil)
	pid := pgtest.Postmaster(t, filepath.Join(at, "data"))
	if _, err := devdb.Start(t.Context(), devdb.Options{Dir: dir, Fsync: true}); err == nil {
		t.Fatal("two runs on one folder")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s := start(t, devdb.Options{Dir: dir, Fsync: true}) // at once: the killed run's server may still run
	if s.Dir() != at {
		t.Errorf("folder: got %s, want %s again", s.Dir(), at)
	}
	awaitEnd(t, pid)
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
}

// ordinary returns how to run as an ordinary user: our own or, if we are root, the user "nobody".
func ordinary(t *testing.T) (attr *syscall.SysProcAttr, uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, os.Getuid(), os.Getgid()
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ = strconv.Atoi(u.Uid) // a number on every Unix
	gid, _ = strconv.Atoi(u.Gid)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, uid, gid
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	attr, uid, gid := ordinary(t)
	home := pgtest.Passable(t)
	if err := os.Chown(home, uid, gid); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"dev", "test", "dev"} {
		dir := filepath.Join(home, "pg")
		if role == "test" {
			dir = home
		}
		cmd, in, at := startChild(t, role, dir, attr)
		info, err := os.Stat(filepath.Join(at, "data"))
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
			t.Errorf("%s: the data are of user %v, want %d", role, info.Sys(), uid)
		}
		if role == "dev" && at != filepath.Join(home, "pg") {
			t.Errorf("the data lie in %s", at)
		}
		pid := pgtest.Postmaster(t, filepath.Join(at, "data"))
		_, _ = io.WriteString(in, "\n")
		_ = cmd.Wait()
		awaitEnd(t, pid)
	}
	// Root leaves it the data that it has made.
	s := start(t, devdb.Options{Dir: filepath.Join(home, "pg")})
	if os.Geteuid() == 0 && s.User() != "nobody" {
		t.Errorf("as root: runs as %q", s.User())
	}
}
