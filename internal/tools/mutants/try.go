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

// runner runs tests in the module's folder root, for at most limit against each mutation.
type runner struct {
	root  string
	limit time.Duration
}

func (r runner) read(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, file))
	return string(text), err
}

// fit returns an error if a text of the list does not occur exactly once.
func (r runner) fit(list []mutation) error {
	var problems []error
	for _, m := range list {
		_, err := m.apply(r.read)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// green runs the tests of all mutations on the unchanged code.
func (r runner) green(ctx context.Context, list []mutation) error {
	tests := make(map[string][]string)
	for _, m := range list {
		tests[m.pkg] = append(tests[m.pkg], m.test)
	}
	for pkg, names := range tests {
		out, err := r.test(ctx, pkg, strings.Join(names, "|"), "-timeout="+(10*r.limit).String())
		if err != nil {
			return fmt.Errorf("run the tests of %s on the unchanged code: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// The results of a mutation.
const (
	red      = "red"
	survives = "SURVIVES"
	notTried = "NOT TRIED"
)

// try runs a mutation's test against it. It returns the result, and the tests that failed or why it was not tried.
func (r runner) try(ctx context.Context, m mutation) (word, detail string) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return notTried, err.Error()
	}
	defer os.RemoveAll(dir)
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return notTried, err.Error()
	}
	return judge(r.test(ctx, m.pkg, m.test, "-overlay="+overlay, "-failfast", "-timeout="+r.limit.String()))
}

// overlay writes the changed files, and the list of them for go test.
func (r runner) overlay(dir string, m mutation) (string, error) {
	changed, err := m.apply(r.read)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, text := range changed {
		from, err := filepath.Abs(filepath.Join(r.root, file))
		if err != nil {
			return "", err
		}
		replace[from] = filepath.Join(dir, strconv.Itoa(len(replace))+filepath.Ext(file))
		if err := os.WriteFile(replace[from], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// test runs go test. Building may take longer than the tests.
func (r runner) test(ctx context.Context, pkg, pattern string, flags ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*r.limit+5*time.Minute)
	defer cancel()
	args := append([]string{"test", "-count=1", "-vet=off", "-run=^(" + pattern + ")$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = r.root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = errors.New("the pattern names no test: the list is out of date")
	}
	return string(out), err
}

var (
	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	brokenBuild = regexp.MustCompile(`(?m)^FAIL\s.*\[(build|setup) failed\]`)
	hungTest    = regexp.MustCompile(`(?m)^\s+(Test\w+)(?:/\S*)? \(\S+\)$`)
)

// judge reads the output and the exit of go test. Only a test that failed, panicked or hung has noticed the mutation:
// one that does not build was never tried.
func judge(out string, err error) (word, detail string) {
	if err == nil {
		return survives, "none"
	}
	if brokenBuild.MatchString(out) {
		return notTried, "it does not build"
	}
	var tests []string
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		tests = append(tests, m[1])
	}
	if strings.Contains(out, "panic: test timed out") {
		for _, m := range hungTest.FindAllStringSubmatch(out, -1) {
			tests = append(tests, m[1]+" (did not end)")
		}
	}
	if len(tests) == 0 {
		return notTried, "go test failed, but no test did: " + err.Error()
	}
	return red, strings.Join(slices.Compact(tests), ", ")
}
