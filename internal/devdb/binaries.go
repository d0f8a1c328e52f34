package devdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Oldest is the first major version of PostgreSQL that the gateway's SQL runs on.
const Oldest = 15

// MissingError says that no usable PostgreSQL is installed, and how to install one.
type MissingError struct {
	Looked []string // the folders that were searched
	Found  string   // a version that is too old; empty if none was found
}

func (e *MissingError) Error() string {
	what := "PostgreSQL's server programs are not installed"
	if e.Found != "" {
		what = fmt.Sprintf("PostgreSQL %s is too old, %d is needed", e.Found, Oldest)
	}
	return fmt.Sprintf("%s; run: %s (looked in %s; GATEWAY_PG_BIN names another folder)",
		what, e.Command(), strings.Join(e.Looked, ", "))
}

// Command returns the command that installs PostgreSQL on this machine, to be run in the checkout. It leaves no
// server running.
func (e *MissingError) Command() string {
	switch {
	case runtime.GOOS == "darwin":
		return "brew install postgresql@17"
	case os.Geteuid() == 0:
		return "make postgres"
	default:
		return "sudo make postgres"
	}
}

// Binaries is an installed PostgreSQL.
type Binaries struct {
	Dir     string // the folder that holds initdb and postgres
	Version string // as the server writes it: 15.19
}

// Find returns the PostgreSQL to use: from the folder that GATEWAY_PG_BIN names, or else the first usable one of
// pg_config's folder, Debian's (the highest version first), Homebrew's, and PATH. The error is a *MissingError when
// there is none.
func Find(ctx context.Context) (Binaries, error) {
	missing := &MissingError{}
	dirs := []string{os.Getenv("GATEWAY_PG_BIN")}
	if dirs[0] == "" {
		dirs = candidates(ctx)
	}
	for _, dir := range dirs {
		missing.Looked = append(missing.Looked, dir)
		if !executable(filepath.Join(dir, "initdb")) || !executable(filepath.Join(dir, "postgres")) {
			continue
		}
		version, err := serverVersion(ctx, dir)
		if err != nil {
			return Binaries{}, err
		}
		if major(version) < Oldest {
			missing.Found = version
			continue
		}
		return Binaries{Dir: dir, Version: version}, nil
	}
	return Binaries{}, missing
}

func candidates(ctx context.Context) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed, and that is the only error
		slices.SortFunc(found, func(a, b string) int { return cmp.Compare(numberIn(b), numberIn(a)) })
		dirs = append(dirs, found...)
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real // initdb looks for postgres beside itself
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	var once []string
	for _, dir := range dirs {
		if !slices.Contains(once, dir) {
			once = append(once, dir)
		}
	}
	return once
}

// numberIn returns the version in a folder's name: 15 for /usr/lib/postgresql/15/bin.
func numberIn(dir string) int {
	digits := strings.FieldsFunc(filepath.Dir(dir), func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1]) // a run of digits; one too long for an int counts as 0
	return n
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func serverVersion(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s/postgres for its version: %w", dir, err)
	}
	// postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)
	_, rest, ok := strings.Cut(string(out), "(PostgreSQL) ")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return "", errors.New("read the version of " + dir + "/postgres: it answers in another form")
	}
	return fields[0], nil
}

// major reads 15 out of 15.19, 16beta1 and 17devel.
func major(version string) int {
	digits := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[0]) // see numberIn
	return n
}
