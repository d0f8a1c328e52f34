package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// workshop is where mutations are tried.
type workshop struct {
	root  string
	limit time.Duration
}

func (w workshop) read(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(w.root, file))
	return string(text), err
}

// fits refuses a list that names a text that is not there exactly once.
func (w workshop) fits(all []mutation) error {
	var problems []error
	for _, m := range all {
		_, err := m.apply(w.read)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// green runs the tests of all mutations on the code as it is.
func (w workshop) green(ctx context.Context, all []mutation) error {
	patterns := make(map[string][]string)
	for _, m := range all {
		if !slices.Contains(patterns[m.pkg], m.tests) {
			patterns[m.pkg] = append(patterns[m.pkg], m.tests)
		}
	}
	for pkg, tests := range patterns {
		out, err := w.test(ctx, pkg, strings.Join(tests, "|"), "-timeout="+(10*w.limit).String())
		if err != nil {
			return fmt.Errorf("run the tests of %s on the code as it is: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// result is what became of a mutation.
type result struct {
	red  bool
	told string // the tests that failed, or why it was not tried
	err  error
}

func (r result) word() string {
	switch {
	case r.red:
		return "red"
	case r.err != nil:
		return "NOT TRIED"
	default:
		return "SURVIVES"
	}
}

// try runs the tests of one mutation against it.
func (w workshop) try(ctx context.Context, m mutation) result {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return result{told: err.Error(), err: err}
	}
	defer os.RemoveAll(dir)
	overlay, err := w.overlay(dir, m)
	if err != nil {
		return result{told: err.Error(), err: err}
	}
	out, err := w.test(ctx, m.pkg, m.tests, "-overlay="+overlay, "-failfast", "-timeout="+w.limit.String())
	return judge(out, err)
}

// overlay writes the changed files and the list that go test takes.
func (w workshop) overlay(dir string, m mutation) (string, error) {
	changed, err := m.apply(w.read)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, text := range changed {
		from, err := filepath.Abs(filepath.Join(w.root, file))
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strconv.Itoa(len(replace))+filepath.Ext(file))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write the changed file: %w", err)
		}
		replace[from] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// test runs go test. Building has time of its own beside that of the tests.
func (w workshop) test(ctx context.Context, pkg, pattern string, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*w.limit+5*time.Minute)
	defer cancel()
	args := append([]string{"test", "-count=1", "-vet=off", "-run=^(" + pattern + ")$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = w.root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = errNoTests
	}
	return string(out), err
}

var (
	errNoTests = errors.New("the pattern names no test: the list is out of date")
	errBuild   = errors.New("it does not build")
	errUnknown = errors.New("go test failed, and no test of it did")

	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	brokenBuild = regexp.MustCompile(`(?m)^FAIL\s.*\[(build|setup) failed\]`)
	hungTest    = regexp.MustCompile(`(?m)^\s+(Test\w+)(?:/\S*)? \(\S+\)$`)
)

// judge reads what go test wrote. Only a test that failed, panicked or did not end has noticed: what does
// not build was never tried.
func judge(out string, err error) result {
	switch {
	case err == nil:
		return result{told: "none"}
	case errors.Is(err, errNoTests):
		return result{told: err.Error(), err: err}
	case brokenBuild.MatchString(out):
		return result{told: errBuild.Error(), err: errBuild}
	}
	var tests []string
	add := func(name string) {
		if !slices.Contains(tests, name) {
			tests = append(tests, name)
		}
	}
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		add(m[1])
	}
	if strings.Contains(out, "panic: test timed out") {
		for _, m := range hungTest.FindAllStringSubmatch(out, -1) {
			add(m[1] + " (did not end)")
		}
	}
	if len(tests) == 0 {
		return result{told: errUnknown.Error(), err: errUnknown}
	}
	return result{red: true, told: strings.Join(tests, ", ")}
}
