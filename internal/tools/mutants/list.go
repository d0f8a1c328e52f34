package main

import (
	"fmt"
	"strings"
)

// mutation is one rule that is broken, and the tests that should notice.
type mutation struct {
	name, pkg, tests string
	edits            []edit
}

// edit replaces a text that is in the file exactly once.
type edit struct{ file, before, after string }

// parse reads the list. A mutation is a line "# name", a line "test PACKAGE PATTERN", and its edits: a line
// "file PATH", then "<<<", the text, "===", what stands in its place, ">>>". A line break in front of a mark
// belongs to the mark. Other lines between mutations must be blank.
func parse(text string) ([]mutation, error) {
	var all []mutation
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		word, rest, _ := strings.Cut(lines[n], " ")
		if word == "" {
			continue
		}
		if word == "#" {
			all = append(all, mutation{name: rest})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d: no mutation was named", n+1)
		}
		m := &all[len(all)-1]
		switch word {
		case "test":
			m.pkg, m.tests, _ = strings.Cut(rest, " ")
		case "file":
			e := edit{file: rest}
			var ok [3]bool
			_, n, ok[0] = upTo(lines, n+1, "<<<")
			e.before, n, ok[1] = upTo(lines, n, "===")
			e.after, n, ok[2] = upTo(lines, n, ">>>")
			if ok != [3]bool{true, true, true} {
				return nil, fmt.Errorf("%s: an edit of %s has no end", m.name, e.file)
			}
			n-- // the loop goes on
			m.edits = append(m.edits, e)
		default:
			return nil, fmt.Errorf("line %d: %q means nothing", n+1, word)
		}
	}
	for _, m := range all {
		if m.name == "" || m.pkg == "" || m.tests == "" || len(m.edits) == 0 {
			return nil, fmt.Errorf("%q: it needs a name, a test and an edit", m.name)
		}
	}
	return all, nil
}

// upTo returns the lines before the mark, and the number of the line behind it.
func upTo(lines []string, from int, mark string) (text string, next int, ok bool) {
	for n := from; n < len(lines); n++ {
		if lines[n] == mark {
			return strings.Join(lines[from:n], "\n"), n + 1, true
		}
	}
	return "", len(lines), false
}

// apply makes the edits, on what read returns, and gives the changed files by their names.
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
