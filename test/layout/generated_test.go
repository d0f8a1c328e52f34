package layout

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/configs"
)

//go:generate go test -count=1 -run ^TestGenerated$ . -update

var update = flag.Bool("update", false, "write the generated parts of the docs")

// TestGenerated compares parts of the docs with the code, or writes them.
func TestGenerated(t *testing.T) {
	t.Parallel()
	for _, g := range []struct {
		file, name string
		text       func(*testing.T) string
	}{
		{"README.md", "settings", settings},
		{"docs/ARCHITECTURE.md", "picture", picture},
		{"docs/ARCHITECTURE.md", "map", mapOfHouse},
	} {
		file := filepath.Join(root, g.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, found := strings.Cut(string(text), "<!-- generated: "+g.name+" -->\n")
		got, after, ended := strings.Cut(rest, "<!-- end -->")
		if !found || !ended {
			t.Fatalf("%s has no marks for the generated %s", g.file, g.name)
		}
		want := "\n" + g.text(t) + "\n"
		if *update {
			text = []byte(before + "<!-- generated: " + g.name + " -->\n" + want + "<!-- end -->" + after)
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the %s is out of date: run go generate ./test/layout (-want +got):\n%s", g.file, g.name, diff)
		}
	}
}

// settings returns the table of all settings.
func settings(*testing.T) string {
	var b strings.Builder
	b.WriteString("| setting | default | |\n| --- | --- | --- |\n")
	for _, s := range configs.Settings() {
		value := "–"
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, value, s.Help)
	}
	return b.String()
}
