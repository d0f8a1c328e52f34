package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheListFitsTheCode(t *testing.T) {
	t.Parallel()
	list, err := all()
	if err != nil {
		t.Fatal(err)
	}
	if err := (runner{root: "../../.."}).fit(list); err != nil {
		t.Error(err)
	}
	seen := make(map[string]bool)
	for _, m := range list {
		if seen[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		seen[m.name] = true
		files, err := filepath.Glob(filepath.Join("../../..", m.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !defined(t, files, m.test) {
			t.Errorf("%s: there is no %s in %s", m.name, m.test, m.pkg)
		}
	}
}

func defined(t *testing.T, files []string, test string) bool {
	t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+test+"(") {
			return true
		}
	}
	return false
}

const oneMutation = "# name\ntest pkg TestA\nfile f\n<<<\none\ntwo\n===\n>>>\nfile f\n<<<\nfour\n===\nfive\n\n>>>\n"

func TestParse(t *testing.T) {
	t.Parallel()
	all, err := parse(oneMutation)
	if err != nil {
		t.Fatal(err)
	}
	want := []mutation{{name: "name", pkg: "pkg", test: "TestA", edits: []edit{
		{file: "f", before: "one\ntwo"}, {file: "f", before: "four", after: "five\n"},
	}}}
	if diff := cmp.Diff(want, all, cmp.AllowUnexported(mutation{}, edit{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefusesABrokenList(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no name":       strings.TrimPrefix(oneMutation, "# name\n"),
		"no test":       strings.Replace(oneMutation, "test pkg TestA\n", "", 1),
		"no edit":       "# name\ntest pkg TestA\n",
		"no end":        strings.Replace(oneMutation, "\n\n>>>", "", 1),
		"something new": oneMutation + "else\n",
	} {
		if all, err := parse(text); err == nil {
			t.Errorf("%s: read as %v", name, all)
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	all, err := parse(oneMutation)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"one\ntwo\nthree four": "\nthree five\n",
		"one\ntwo":             "",
		"four":                 "",
		"one\ntwo four four":   "",
	} {
		changed, err := all[0].apply(func(string) (string, error) { return text, nil })
		if changed["f"] != want || (err != nil) != (want == "") {
			t.Errorf("%q became %q, %v", text, changed["f"], err)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	failed := errors.New("exit status 1")
	for _, c := range []struct {
		name, out    string
		err          error
		word, detail string
	}{
		{"passes", "ok  \tp\t1s\n", nil, survives, "none"},
		{"fails", "--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/sub (0s)\n--- FAIL: TestB (0s)\nFAIL\n", failed, red, "TestA, TestB"},
		{"hangs", "panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (58s)\n\t\tTestA/sub (58s)\n\ngoroutine 1\n", failed, red, "TestA (did not end)"},
		{"does not build", "# p\nf.go:1:1: x\nFAIL\tp [build failed]\n", failed, notTried, "it does not build"},
		{"no server", "start a PostgreSQL: no\nFAIL\tp\t1s\n", failed, notTried, "go test failed, but no test did: exit status 1"},
	} {
		if word, detail := judge(c.out, c.err); word != c.word || detail != c.detail {
			t.Errorf("%s: %s, %s", c.name, word, detail)
		}
	}
}
