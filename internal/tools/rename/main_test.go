package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is a small one in which everything occurs that could be taken for the path.
func module(t *testing.T) (dir string, read func() map[string]string) {
	t.Helper()
	files := map[string]string{
		"go.mod": "module old-name\n\ngo 1.26.0\n\nrequire example.com/old-name v1.0.0\n",
		"jobs/jobs.go": "package jobs\n\nimport (\n\t\"example.com/old-name/jobs\"\n\t\"strings\"\n\n" +
			"\tnamed \"old-name/drops\"\n\t_ \"old-name/zoo\" // why\n)\n\n" +
			"// old-name/drops is not an import here.\nconst folder = \"/var/lib/old-name/drops\"\n",
		"drops/drops.go":       "package drops\n",
		"README.md":            "# old-name\n\nold-name receives. Import `old-name/jobs`; logs are in /var/log/old-name/jobs.\n\ngo install old-name/jobs@latest\n",
		"jobs/testdata/doc.md": "old-name/jobs\n",
		"docs/user/go.mod":     "module user\n\nreplace old-name => ../..\n\nrequire (\n\texample.com/old-name v1.0.0\n\told-name v0.0.0\n)\n",
		"docs/user.md":         "# User\n\ngo mod edit -replace=old-name=../old-name\n\nreplace old-name => ../old-name\n",
	}
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func() map[string]string {
		t.Helper()
		now := map[string]string{}
		for name := range files {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			now[name] = string(text)
		}
		return now
	}
}

func TestRename(t *testing.T) {
	t.Parallel()
	dir, read := module(t)
	before := read()
	want := map[string]string{
		"go.mod": "module example.com/a.b/hooks\n\ngo 1.26.0\n\nrequire example.com/old-name v1.0.0\n",
		"jobs/jobs.go": "package jobs\n\nimport (\n\t\"example.com/old-name/jobs\"\n\t\"strings\"\n\n" +
			"\tnamed \"example.com/a.b/hooks/drops\"\n\t_ \"example.com/a.b/hooks/zoo\" // why\n)\n\n" +
			"// old-name/drops is not an import here.\nconst folder = \"/var/lib/old-name/drops\"\n",
		"drops/drops.go":       "package drops\n",
		"README.md":            "# old-name\n\nold-name receives. Import `example.com/a.b/hooks/jobs`; logs are in /var/log/old-name/jobs.\n\ngo install example.com/a.b/hooks/jobs@latest\n",
		"jobs/testdata/doc.md": "old-name/jobs\n",
		"docs/user/go.mod":     "module user\n\nreplace example.com/a.b/hooks => ../..\n\nrequire (\n\texample.com/old-name v1.0.0\n\texample.com/a.b/hooks v0.0.0\n)\n",
		"docs/user.md":         "# User\n\ngo mod edit -replace=example.com/a.b/hooks=../old-name\n\nreplace example.com/a.b/hooks => ../old-name\n",
	}
	for _, again := range []string{"first", "second"} {
		if err := rename(dir, "example.com/a.b/hooks"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("after the %s run (-want +got):\n%s", again, diff)
		}
	}
	if err := rename(dir, "old-name"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, read()); diff != "" {
		t.Errorf("and back (-want +got):\n%s", diff)
	}
}

func TestRenameKeepsImportsSorted(t *testing.T) {
	t.Parallel()
	text := "package p\n\nimport (\n\t\"m/b\"\n\t\"m/c\"\n\t\"n/a\"\n)\n"
	got, err := inGo([]byte(text), "m", "z")
	if err != nil {
		t.Fatal(err)
	}
	want := "package p\n\nimport (\n\t\"n/a\"\n\t\"z/b\"\n\t\"z/c\"\n)\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRenameRefusesWhatIsNoModulePath(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"", "with space", "/rooted", "ends/", "../up", `quo"te`, "a//b", "a/../b", "a/./b"} {
		dir, read := module(t)
		before := read()
		if err := rename(dir, to); err == nil {
			t.Errorf("%q: taken", to)
		}
		if diff := cmp.Diff(before, read()); diff != "" {
			t.Errorf("%q changed something:\n%s", to, diff)
		}
	}
}
