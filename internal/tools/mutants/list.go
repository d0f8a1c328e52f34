package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// mutation is one broken rule, and the test that must notice it.
type mutation struct {
	name, pkg, test string
	edits           []edit
}

// edit replaces a text that occurs in the file exactly once.
type edit struct{ file, before, after string }

// all reads the lists.
func all() ([]mutation, error) {
	var text strings.Builder
	names, _ := fs.Glob(lists, "*.txt") // the pattern is well-formed, and that is its only error
	for _, name := range names {
		list, err := lists.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text.Write(append(list, "\n\n"...))
	}
	return parse(text.String())
}

var (
	mutationForm = regexp.MustCompile(`(?s)\A([^\n]+)\ntest (\S+) (\S+)\n(file .*)\z`)
	editForm     = regexp.MustCompile(`(?s)\Afile (\S+)\n<<<\n(.*?)\n===\n(?:(.*?)\n)??>>>\n*`)
	nextMutation = regexp.MustCompile(`\n\n+# `)
)

// parse reads a list. A mutation is a line "# name", a line "test PACKAGE TEST", and its edits: a line "file PATH",
// "<<<", the text, "===", its replacement, ">>>". Blank lines are between mutations.
func parse(text string) ([]mutation, error) {
	var list []mutation
	for _, part := range nextMutation.Split(strings.TrimPrefix(strings.TrimSpace(text), "# "), -1) {
		head := mutationForm.FindStringSubmatch(part)
		if head == nil {
			return nil, fmt.Errorf("read the list: a name, a test and an edit are needed: %.80s", part)
		}
		m := mutation{name: head[1], pkg: head[2], test: head[3]}
		for rest := head[4]; rest != ""; {
			e := editForm.FindStringSubmatch(rest)
			if e == nil {
				return nil, fmt.Errorf("read the list: %s: not an edit: %.80s", m.name, rest)
			}
			m.edits = append(m.edits, edit{e[1], e[2], e[3]})
			rest = rest[len(e[0]):]
		}
		list = append(list, m)
	}
	return list, nil
}

// apply makes the edits on the text that read returns, and returns the changed files by name.
func (m mutation) apply(read func(file string) (string, error)) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range m.edits {
		text, again := changed[e.file]
		if !again {
			var err error
			if text, err = read(e.file); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
		if n := strings.Count(text, e.before); n != 1 || e.before == "" {
			return nil, fmt.Errorf("%s: the text to change is %d times in %s, not once: the list is out of date", m.name, n, e.file)
		}
		changed[e.file] = strings.Replace(text, e.before, e.after, 1)
	}
	return changed, nil
}
