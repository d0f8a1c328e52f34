package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docsRoot is the module's folder, seen from here.
const docsRoot = "../.."

// doc is one Markdown file, taken apart.
type doc struct {
	path   string // from the module's root
	text   string
	prose  string   // without fenced blocks
	blocks []string // the lines of fenced blocks of shell, continued ones joined
}

// filesOf lists the module's files of that extension, from the module's root. What hides is not the module's.
func filesOf(t *testing.T, extension string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(docsRoot, func(path string, d fs.DirEntry, err error) error {
		hidden := path != docsRoot && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && (hidden || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != extension {
			return err
		}
		rel, err := filepath.Rel(docsRoot, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// docs reads every Markdown file of the module.
func docs(t *testing.T) []doc {
	t.Helper()
	var all []doc
	for _, path := range filesOf(t, ".md") {
		all = append(all, readDoc(t, path))
	}
	return all
}

func readDoc(t *testing.T, path string) doc {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(docsRoot, path))
	if err != nil {
		t.Fatal(err)
	}
	d := doc{path: path, text: string(content)}
	var prose, block strings.Builder
	fenced, shell := false, false
	for line := range strings.Lines(d.text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced, shell = !fenced, strings.TrimSpace(line) == "```sh"
			prose.WriteString("\n")
		case shell:
			block.WriteString(line)
		case !fenced:
			prose.WriteString(line)
		}
	}
	if fenced {
		t.Fatalf("%s: a fenced block has no end", path)
	}
	d.prose = prose.String()
	for line := range strings.Lines(strings.ReplaceAll(block.String(), "\\\n", " ")) {
		d.blocks = append(d.blocks, strings.TrimSpace(line))
	}
	return d
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// spans are the texts in backquotes. One may run over the end of a line.
func (d doc) spans() []string {
	var all []string
	for _, m := range codeSpan.FindAllStringSubmatch(strings.ReplaceAll(d.prose, "\n", " "), -1) {
		all = append(all, strings.Join(strings.Fields(m[1]), " "))
	}
	return all
}

// table returns the rows of the table whose first heading is this, cell by cell.
func (d doc) table(t *testing.T, heading string) [][]string {
	t.Helper()
	var rows [][]string
	found := false
	for line := range strings.Lines(d.prose) {
		line = strings.TrimSpace(line)
		cells := cellsOf(line)
		switch {
		case !found:
			found = len(cells) > 0 && cells[0] == heading
		case len(cells) == 0:
			return rows
		case strings.Trim(line, "|- ") != "":
			rows = append(rows, cells)
		}
	}
	if !found {
		t.Fatalf("%s has no table that begins with %q", d.path, heading)
	}
	return rows
}

func cellsOf(line string) []string {
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// bare is a cell without its backquotes; a dash for nothing is nothing.
func bare(cell string) string {
	if cell == "–" {
		return ""
	}
	return strings.ReplaceAll(cell, "`", "")
}

var (
	docLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docHeading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// links are where a document's relative links lead: a file from the module's root, and a place in it.
func (d doc) links() [][2]string {
	var all [][2]string
	for _, m := range docLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(d.prose, "code"), -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		switch {
		case strings.Contains(m[1], ":"):
			continue // to somewhere else
		case file == "":
			file = d.path
		default:
			file = filepath.ToSlash(filepath.Join(filepath.Dir(d.path), file))
		}
		all = append(all, [2]string{file, anchor})
	}
	return all
}

// anchors are the places in a document that a link can lead to.
func (d doc) anchors() []string {
	var all []string
	for _, m := range docHeading.FindAllStringSubmatch(d.prose, -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(strings.TrimSpace(slug), " ", "-"))
	}
	return all
}

// commandLines are the words after the word gateway, wherever code shows how the program is called.
func (d doc) commandLines() [][]string {
	var all [][]string
	for _, code := range append(d.spans(), d.blocks...) {
		code, _, _ = strings.Cut(code, " #")
		for _, part := range regexp.MustCompile(`\|\|?|;|&&`).Split(code, -1) {
			words := strings.Fields(part)
			for i, word := range words {
				if word == "gateway" || word == "bin/gateway" || word == "webhook-gateway" {
					all = append(all, words[i+1:])
					break
				}
			}
		}
	}
	return all
}
