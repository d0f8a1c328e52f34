package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/safetext"
	"webhook-gateway/test/binary"
)

// testTimeout bounds what a test waits for, on a machine that is busy with other tests.
const testTimeout = 2 * time.Minute

// openDir is a directory that every user can enter, which t.TempDir's parent is not.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// devRun is a gateway dev that runs as a process.
type devRun struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *bytes.Buffer
	ended  chan error
}

// startDev starts one in a directory, as the user given (zero: ourselves).
func startDev(t *testing.T, dir string, user uint32, args ...string) *devRun {
	t.Helper()
	path, err := binary.Path()
	if err != nil {
		t.Fatal(err)
	}
	d := &devRun{t: t, dir: dir, stderr: &bytes.Buffer{}, ended: make(chan error, 1)}
	d.cmd = exec.Command(path, append([]string{"dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	d.cmd.Dir = dir
	d.cmd.Env = d.environ()
	d.cmd.Stderr = d.stderr
	if user != 0 {
		d.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stdout = bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil { // the test has failed
			_ = d.cmd.Process.Signal(os.Interrupt)
			_ = d.cmd.Wait()
		}
	})
	return d
}

// environ has a DATABASE_URL that leads nowhere: a dev gateway has its own.
func (d *devRun) environ() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "DATABASE_URL=postgres://nobody@127.0.0.1:1/nowhere"}
	if bin := os.Getenv("GATEWAY_PG_BIN"); bin != "" {
		env = append(env, "GATEWAY_PG_BIN="+bin)
	}
	return env
}

// until reads what it prints up to a line that holds the text.
func (d *devRun) until(text string) string {
	d.t.Helper()
	timer := time.AfterFunc(testTimeout, func() { _ = d.cmd.Process.Kill() })
	defer timer.Stop()
	var read strings.Builder
	for {
		line, err := d.stdout.ReadString('\n')
		read.WriteString(line)
		if err != nil {
			_ = d.cmd.Wait()
			d.t.Fatalf("ended before it printed %q: %v\n%s%s", text, err, read.String(), d.stderr.String())
		}
		if strings.Contains(line, text) {
			return read.String()
		}
	}
}

// ready waits for the object that --json prints.
func (d *devRun) ready() map[string]any {
	d.t.Helper()
	line := d.until("{")
	var object map[string]any
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		d.t.Fatalf("%v: %s", err, line)
	}
	return object
}

// end sends a signal and returns the exit status once it has ended.
func (d *devRun) end(sig syscall.Signal) int {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
	timer := time.AfterFunc(testTimeout, func() { _ = d.cmd.Process.Kill() })
	defer timer.Stop()
	_, _ = d.stdout.WriteTo(&bytes.Buffer{}) // to its end; what matters is the status
	_ = d.cmd.Wait()
	return d.cmd.ProcessState.ExitCode()
}

// shell runs a command as a person would copy it, in the same directory.
func (d *devRun) shell(command string) result {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = d.dir, d.environ()
	cmd.SysProcAttr = d.cmd.SysProcAttr
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // what matters is the status
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// postgres returns the process id of the private server.
func postgres(t *testing.T, dir string) int {
	t.Helper()
	line, _, _ := strings.Cut(string(readFile(t, filepath.Join(dir, "data", "postmaster.pid"))), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// commands returns the printed lines that send a sample.
func commands(printed string) []string {
	var list []string
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "  ") && strings.Contains(line, "gateway send ") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

func TestDevUntilCtrlC(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	d := startDev(t, dir, 0)
	printed := d.until("sources list")

	list := commands(printed)
	if len(list) != 2 || !strings.HasSuffix(list[0], "send slack") || !strings.HasSuffix(list[1], "send nylas") {
		t.Fatalf("commands to copy: %q in\n%s", list, printed)
	}
	for i, want := range []string{"app_mention", "message.created"} {
		got := d.shell(list[i])
		for _, says := range []string{"200 OK in ", "stored  ", want} {
			if got.status != exitOK || !strings.Contains(got.stdout, says) {
				t.Errorf("%s does not say %q: status %d\n%s%s", list[i], says, got.status, got.stdout, got.err)
			}
		}
	}
	last := printed[strings.LastIndex(strings.TrimSpace(printed), "\n")+1:]
	if got := d.shell(strings.TrimSpace(last)); got.status != exitOK || !strings.Contains(got.stdout, "/webhooks/nylas/sources/dev") {
		t.Errorf("%s: status %d\n%s%s", last, got.status, got.stdout, got.err)
	}
	// The settings of its gateway are those that serve would take: PostgreSQL writes through.
	check := strings.Replace(strings.TrimSpace(last), "sources list", "config check --connect --json", 1)
	if got := d.shell(check).json(t); got["ok"] != true {
		t.Errorf("config check: %v", got)
	}
	pid := postgres(t, filepath.Join(dir, ".dev", "postgres"))
	if status := d.end(syscall.SIGINT); status != exitOK {
		t.Errorf("exit status %d after Ctrl-C: %s", status, d.stderr)
	}
	if strings.Contains(printed+d.stderr.String(), "gateway:") {
		t.Error("the password of PostgreSQL is printed")
	}
	if alive(pid) {
		t.Errorf("PostgreSQL, process %d, outlives it", pid)
	}
	if got := d.shell(list[0]); got.status != exitConfig || !strings.Contains(got.err, "no gateway dev runs in") {
		t.Errorf("send afterwards: status %d, %s", got.status, got.err)
	}
}

func TestDevAfterKill(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := startDev(t, dir, 0, "--json")
	before := first.ready()
	if got := first.shell(safetext.Shell(first.cmd.Path) + " send slack"); got.status != exitOK {
		t.Fatalf("send: %s", got.err)
	}
	if status := first.end(syscall.SIGKILL); status == exitOK {
		t.Fatal("it was not killed")
	}
	// A lost key does not matter either: the samples get new secrets.
	if err := os.Remove(filepath.Join(dir, ".dev", "secrets-key")); err != nil {
		t.Fatal(err)
	}
	second := startDev(t, dir, 0, "--json")
	after := second.ready()
	for _, changes := range []string{"url", "admin_url"} { // free ports
		delete(before, changes)
		delete(after, changes)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the second run: %s", diff)
	}
	if got := second.shell(safetext.Shell(second.cmd.Path) + " send nylas deltas --json").json(t); len(rows(got, "stored")) != 2 {
		t.Errorf("send: %v", got)
	}
	third := startDev(t, dir, 0)
	_ = third.cmd.Wait()
	if status := third.cmd.ProcessState.ExitCode(); status != exitFailed || !strings.Contains(third.stderr.String(), "another gateway dev runs in") {
		t.Errorf("a second one in the directory: status %d, %s", status, third.stderr)
	}
	if status := second.end(syscall.SIGTERM); status != exitOK {
		t.Errorf("exit status %d after SIGTERM: %s", status, second.stderr)
	}
}

func TestDevAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	dir := t.TempDir() // its parent is ours alone
	user := uint32(0)
	if os.Geteuid() == 0 {
		if !t.Run("root, where PostgreSQL's user cannot enter", func(t *testing.T) {
			d := startDev(t, dir, 0)
			printed := d.until("sources list")
			if !strings.Contains(printed, "(not in "+filepath.Join(dir, ".dev")+": PostgreSQL runs as the user ") {
				t.Errorf("does not say where the data are:\n%s", printed)
			}
			_, data, _ := strings.Cut(printed, "data      ")
			data, _, _ = strings.Cut(data, ", kept between runs")
			t.Cleanup(func() { os.RemoveAll(data) })
			if status := d.end(syscall.SIGINT); status != exitOK {
				t.Errorf("exit status %d: %s", status, d.stderr)
			}
		}) {
			return
		}
		user, dir = nobody, openDir(t)
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	d := startDev(t, dir, user, "--json")
	d.ready()
	if got := d.shell(safetext.Shell(d.cmd.Path) + " send slack slash_command"); got.status != exitOK || !strings.Contains(got.stdout, "stored") {
		t.Errorf("send: status %d\n%s%s", got.status, got.stdout, got.err)
	}
	if status := d.end(syscall.SIGINT); status != exitOK {
		t.Errorf("exit status %d: %s", status, d.stderr)
	}
}

func TestCtrlCWhileDevStarts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	var out bytes.Buffer
	interrupt := writeFunc(func(p []byte) (int, error) {
		cancel(errors.New("interrupt signal received")) // it has just said that it starts PostgreSQL
		return len(p), nil
	})
	status := run(ctx, []string{"dev", "--dir", openDir(t), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		streams{in: untouched{t}, out: &out, err: interrupt})
	if status != exitOK || out.Len() != 0 {
		t.Errorf("status %d, stdout %q", status, &out)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	signal, other := errors.New("interrupt signal received"), errors.New("disk full")
	ctx, cancel := context.WithCancelCause(t.Context())
	if interrupted(ctx, context.Canceled) {
		t.Error("before it has ended")
	}
	cancel(signal)
	for err, want := range map[error]bool{context.Canceled: true, fmt.Errorf("make the data: %w", signal): true, other: false, nil: false} {
		if got := interrupted(ctx, err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

type writeFunc func([]byte) (int, error)

func (w writeFunc) Write(p []byte) (int, error) { return w(p) }

func TestDevAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	dir := t.TempDir()
	free := "127.0.0.1:0"
	call(t, untouched{t}, "dev", "--dir", dir, "--listen", taken, "--admin-listen", free).wants(t, exitConfig, taken+" is used by another program", "with --listen")
	call(t, untouched{t}, "dev", "--dir", dir, "--listen", free, "--admin-listen", taken).wants(t, exitConfig, taken+" is used by another program", "with --admin-listen")
	call(t, untouched{t}, "dev", "--dir", dir, "--listen", "8080", "--admin-listen", free).wants(t, exitUsage, `--listen "8080"`, "host:port")
}
