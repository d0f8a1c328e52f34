package devdb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"15.19": 15, "16beta1": 16, "17devel": 17, "9.6.24": 9, "": 0} {
		if got := major(version); got != want {
			t.Errorf("major(%q): got %d, want %d", version, got, want)
		}
	}
	for dir, want := range map[string]int{
		"/usr/lib/postgresql/15/bin":           15,
		"/usr/pgsql-9/bin":                     9,
		"/opt/homebrew/opt/postgresql@17/bin":  17,
		"/usr/local/opt/postgresql/nothing/in": 0,
	} {
		if got := numberIn(dir); got != want {
			t.Errorf("numberIn(%q): got %d, want %d", dir, got, want)
		}
	}
}

// fakePostgres makes a folder with the two programs, which know their version only.
func fakePostgres(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + " (Somewhere)'\n"
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		dir, version string
		missing      string // in the error; empty when it is found
	}{
		"the named folder":       {dir: fakePostgres(t, "17.2"), version: "17.2"},
		"a beta":                 {dir: fakePostgres(t, "18beta1"), version: "18beta1"},
		"too old":                {dir: fakePostgres(t, "14.11"), missing: "14.11 is too old"},
		"no server in it":        {dir: t.TempDir(), missing: "not installed"},
		"a folder that is not":   {dir: "/nowhere/at/all", missing: "/nowhere/at/all"},
		"the command to install": {dir: t.TempDir(), missing: "make postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GATEWAY_PG_BIN", c.dir)
			got, err := Find(t.Context())
			if c.missing == "" {
				if err != nil || got != (Binaries{Dir: c.dir, Version: c.version}) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			var missing *MissingError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), c.missing) {
				t.Errorf("got %v, want %q in a MissingError", err, c.missing)
			}
		})
	}
}

func TestFindLooksWhereSystemsPutIt(t *testing.T) {
	t.Setenv("GATEWAY_PG_BIN", "")
	got, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if major(got.Version) < Oldest {
		t.Errorf("found %v", got)
	}

	dir := fakePostgres(t, "42.0") // pg_config is asked first
	config := "#!/bin/sh\necho " + dir + "\n"
	if err := os.WriteFile(filepath.Join(dir, "pg_config"), []byte(config), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if got, err := Find(t.Context()); err != nil || got.Dir != dir {
		t.Errorf("got %v, %v, want %s", got, err, dir)
	}
}
