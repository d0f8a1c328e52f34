// Package layout checks the module's own rules: which package may import which, and how long files and functions may
// be. A rule that nothing checks is a false statement about the code.
package layout

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// testsToo lists what the tests of every package may also import.
var testsToo = []string{"internal/pgtest", "migrations"}

// testsOf lists what the tests of one package may also import.
var testsOf = map[string][]string{
	"feed":                        {"internal/inbox"},                        // its days
	"internal/inbox":              {"internal/canonical", "providers/nylas"}, // fingerprints as the gate hands them over
	"internal/capture":            {"providers/nylas", "providers/slack"},    // captures are what the vendors make of them
	"internal/redrive":            {"internal/pg", "providers/nylas"},        // a vendor whose requests can be read
	"internal/gateway":            {"providers/nylas", "providers/slack"},    // the vendors it receives from
	"internal/doctor":             {"providers/nylas", "providers/slack"},    // and a signature is theirs
	"idempotency/idempotencytest": {"idempotency"},                           // whose keys time passes for
}

// mayUse lists the packages that may import a third-party module; "tests" means the tests of any package.
var mayUse = map[string][]string{
	"github.com/labstack/echo/v4": {"providers", "internal/gateway", "test/*", "tests"},
	"github.com/jackc/pgx/v5":     {"idempotency", "idempotency/httpdoor", "idempotency/idempotencytest", "jobs", "drops", "feed", "migrations", "internal/inbox", "internal/redrive", "internal/devdb", "internal/pgtest", "internal/pg", "internal/sqlstate", "internal/connections", "internal/preflight", "internal/registry", "internal/replay", "internal/export", "internal/send", "internal/dev", "internal/gateway", "cmd/*", "test/*", "tests"},
	"github.com/slack-go/slack":   {"providers/slack", "test/*", "tests"},
	"github.com/pressly/goose/v3": {"migrations"},
	"github.com/spf13/cobra":      {"cmd/*"},
	// What serves tests stays out of the binary.
	"testing":                           {"test/*", "tests"},
	"pgregory.net/rapid":                {"test/*", "tests"},
	"github.com/google/go-cmp":          {"test/*", "tests"},
	"go.uber.org/goleak":                {"test/*", "tests"},
	"github.com/anishathalye/porcupine": {"test/*", "tests"},
	"github.com/prometheus/client_golang/prometheus/testutil": {"test/*", "tests"},
}

// pkg holds what go list prints about a package.
type pkg struct {
	ImportPath   string
	Module       struct{ Path string }
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// name is the package's folder in the module.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, p.Module.Path+"/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Module,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// matches reports whether a name is in the list, or below a folder that is listed with an asterisk.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		folder, below := strings.CutSuffix(p, "*")
		return p == name || below && strings.HasPrefix(name, folder)
	})
}

// ours returns the folders of the imports that are in the package's module.
func ours(p pkg, imports []string) []string {
	var names []string
	for _, i := range imports {
		if name, ok := strings.CutPrefix(i, p.Module.Path+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

func TestThirdPartyImports(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for module, users := range mayUse {
			uses := func(i string) bool { return i == module || strings.HasPrefix(i, module+"/") }
			if slices.ContainsFunc(p.Imports, uses) && !matches(users, p.name()) {
				t.Errorf("%s may not import %s", p.name(), module)
			}
			if slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), uses) && !matches(users, p.name()) && !slices.Contains(users, "tests") {
				t.Errorf("%s's tests may not import %s", p.name(), module)
			}
		}
	}
}

func TestNoTestCodeInTheBinary(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "./cmd/gateway")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		if dep == "testing" || strings.HasSuffix(dep, "/internal/pgtest") || strings.Contains(dep, "/test/") {
			t.Errorf("cmd/gateway depends on %s", dep)
		}
	}
}
