package replay

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"webhook-gateway/test/binary"
)

// The types are aliases, and go doc shows only their comments: each must name every field.
func TestTheTypesAreDocumented(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := make(map[string]string)
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			comments[g.Specs[0].(*ast.TypeSpec).Name.Name] = g.Doc.Text()
		}
	}
	for _, v := range []any{Capture{}, Party{}, Alter{}, Expect{}, Result{}, Row{}, Scenario{}, Place{}} {
		kind := reflect.TypeOf(v)
		for field := range kind.Fields() {
			if !regexp.MustCompile(`\b` + field.Name + `\b`).MatchString(comments[kind.Name()]) {
				t.Errorf("go doc of %s does not show %s", kind.Name(), field.Name)
			}
		}
	}
}

// The output of gateway import can be replayed in every way without changes.
func TestImportedReplay(t *testing.T) {
	t.Parallel()
	gateway, err := binary.Path()
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile("testdata/slack/app-mention/body.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	message := filepath.Join(dir, "request.http")
	head := "POST /slack HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\n\r\n"
	if err := os.WriteFile(message, append([]byte(head), body...), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "captures")
	if said, err := exec.CommandContext(t.Context(), gateway, "import", message, "--provider", "slack", "--source", "main",
		"--received-at", "2026-11-03T10:05:44Z", "--out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	list := Load(t, out)
	if len(list) != 1 || list[0].Expect.Twenty != nil {
		t.Fatalf("%d captures, of which one says what to expect of twenty at once: the test shows nothing", len(list))
	}
	Run(t, list, NewMemory(t, list).Target())
	Twenty(t, list, NewMemory(t, list).Target())
}
