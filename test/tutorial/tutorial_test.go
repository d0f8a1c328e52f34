// Package tutorial builds the program of docs/tutorial.md in another module, as a reader does, and kills it.
package tutorial

import (
	"bufio"
	"bytes"
	"errors"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency/idempotencytest"
)

const (
	document = "../../docs/tutorial.md"
	module   = "../../docs/tutorial"
	hint     = "after a change of go.mod: go -C docs/tutorial mod tidy"
)

func TestMain(m *testing.M) { idempotencytest.Main(m) }

// shown returns the fenced block of the document below a line that names the file.
var shown = regexp.MustCompile("(?ms)^`([a-z_]+\\.go)`[^\\n]*:\\n\\n```go\\n(.*?)^```$")

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheTutorialShowsItsCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(module, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	document := read(t, document)
	var named []string
	for _, m := range shown.FindAllStringSubmatch(document, -1) {
		path := filepath.Join(module, m[1])
		named = append(named, path)
		code := read(t, path)
		if code != m[2] {
			t.Errorf("%s and the document differ", path)
		}
		if pretty, err := format.Source([]byte(code)); err != nil || string(pretty) != code {
			t.Errorf("%s: gofmt would change it, %v", path, err)
		}
	}
	slices.Sort(named)
	if !slices.Equal(files, named) {
		t.Errorf("the document shows %s, the module has %s", named, files)
	}
	replaced := regexp.MustCompile(`(?m)^replace (\S+) => (\S+)$`)
	has := replaced.FindAllStringSubmatch(read(t, filepath.Join(module, "go.mod")), -1)
	shows := replaced.FindAllStringSubmatch(document, -1)
	if len(has) != 1 || len(shows) != 1 || has[0][1] != shows[0][1] {
		t.Errorf("go.mod replaces %q, the document %q; want one line for one module", has, shows)
	}
}

// inModule runs go in that module, which requires only the modules that the gateway requires.
func inModule(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, hint)
	}
}

func TestTheTutorialsOwnTestsPass(t *testing.T) {
	t.Parallel()
	inModule(t, "test", "-count=1", "./...") // which vets it too
}

// program is the tutorial's, built.
type program struct {
	*testing.T
	binary   string
	database string
	bank     string
	said     bytes.Buffer // by every call
}

func (p *program) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), p.binary, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+p.database, "BANK_URL="+p.bank)
	return cmd
}

// call makes the tool call, and returns its output.
func (p *program) call(status int) string {
	p.Helper()
	out, err := p.command().CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) != (status != 0) || exit != nil && exit.ExitCode() != status {
		p.Fatalf("the call ends with %v, want exit status %d\n%s", err, status, out)
	}
	p.said.Write(out)
	return string(out)
}

// startBank starts the bank, and returns the lines that it prints after its address.
func (p *program) startBank() (cmd *exec.Cmd, lines *bufio.Reader) {
	p.Helper()
	cmd = p.command("bank", "-listen", "127.0.0.1:0", "-slow", "1h")
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines = bufio.NewReader(pipe)
	line := next(p.T, lines)
	_, p.bank, _ = strings.Cut(strings.TrimSpace(line), "at ")
	return cmd, lines
}

func next(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("read a line of the bank: %v", err)
	}
	return line
}

// A worker is killed while the bank, which has paid, is about to answer.
func TestTutorialSurvivesKill(t *testing.T) {
	t.Parallel()
	p := &program{T: t, binary: filepath.Join(t.TempDir(), "refunds"), database: idempotencytest.URL(t)}
	inModule(t, "build", "-o", p.binary, ".")
	bank, lines := p.startBank()
	worker := p.command()
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	paid := next(t, lines)
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	if s, ok := worker.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Fatalf("the worker ended by itself: %s", worker.ProcessState)
	}
	if out := p.call(1); !strings.Contains(out, "retry in") {
		t.Errorf("while its lease lives: %s", out)
	}
	idempotencytest.Pass(t, p.open(), time.Minute)
	if out := p.call(0); out != "rf_1, replayed: false\n" {
		t.Errorf("once its lease has passed: %s", out)
	}
	if out := p.call(0); out != "rf_1, replayed: true\n" {
		t.Errorf("afterwards: %s", out)
	}
	if err := bank.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || paid != "paid rf_1 for job_17:3:refund\n" || string(rest) != "asked for job_17:3:refund, found: true\n" {
		t.Errorf("the bank says %q, then %q, %v; want one payment and one question", paid, rest, err)
	}
	p.wantShown(paid + string(rest))
}

func (p *program) open() *pgxpool.Pool {
	p.Helper()
	pool, err := pgxpool.New(p.Context(), p.database)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(pool.Close)
	return pool
}

// output returns the output of the programs that the document shows.
var output = regexp.MustCompile("(?ms)^```text\\n(.*?)^```$")

// varying matches what differs from run to run.
var varying = regexp.MustCompile(`\d+(\.\d+)?s\b|:\d{4,5}\b`)

// wantShown checks that the programs printed every line that the document shows, except what varies.
func (p *program) wantShown(bank string) {
	p.Helper()
	said := varying.ReplaceAllString("the bank is at "+p.bank+"\n"+bank+p.said.String(), "N")
	lines := 0
	for _, m := range output.FindAllStringSubmatch(read(p.T, document), -1) {
		for line := range strings.Lines(varying.ReplaceAllString(m[1], "N")) {
			if lines++; !strings.Contains(said, line) {
				p.Errorf("the document shows a line that was not said: %s", line)
			}
		}
	}
	if lines < 5 {
		p.Errorf("the document shows %d lines", lines)
	}
}
