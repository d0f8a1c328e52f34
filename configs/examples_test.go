package configs

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is what the example files set: every default, and a database.
func example() Config {
	c := plain()
	c.DatabaseURL = NewSecret("postgres://gateway@127.0.0.1:5432/gateway")
	return c
}

func TestExampleFile(t *testing.T) {
	t.Parallel()
	got, err := Load("gateway.example.yaml", []string{"HOME=/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got, revealed()); diff != "" {
		t.Fatal(diff)
	}
	var p problems
	listed := fromFile("gateway.example.yaml", &p)
	for _, s := range Settings() {
		if _, ok := listed[s.Name]; !ok && s.YAML != "" {
			t.Errorf("%s is not in the example", s.YAML)
		}
		if listed[s.Name] != s.Default && s.Default != "" {
			t.Errorf("%s: the example has %q, the default is %q", s.YAML, listed[s.Name], s.Default)
		}
	}
}

func TestExampleEnvironment(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("gateway.example.env")
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=/home/u"}
	listed := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		environ = append(environ, line)
		name, text, _ := strings.Cut(line, "=")
		listed[name] = text
	}
	got, err := Load("", environ)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got, revealed()); diff != "" {
		t.Fatal(diff)
	}
	for _, s := range Settings() {
		text, ok := listed[s.Name]
		if !ok || text != s.Default && s.Default != "" {
			t.Errorf("%s: the example has %q (%v), the default is %q", s.Name, text, ok, s.Default)
		}
		delete(listed, s.Name)
	}
	if len(listed) > 0 {
		t.Errorf("no settings: %v", listed)
	}
}
