// Command rename changes the module's path in go.mod, in every import, in the modules below that replace it, and in the
// documents where they name a package of it. What merely sounds like the path, the product's name for one, stays.
//
//	go run ./internal/tools/rename example.com/hooks
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rename MODULE")
		os.Exit(2)
	}
	if err := rename(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
}

var (
	moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)
	modulePath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)
)

// rename gives the module whose root is dir another path. Giving it the one it has changes nothing.
func rename(dir, to string) error {
	if !modulePath.MatchString(to) {
		return fmt.Errorf("%q is no module path", to)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return fmt.Errorf("read the module's path: %w", err)
	}
	found := moduleLine.FindSubmatch(mod)
	if found == nil {
		return errors.New("read the module's path: go.mod has no module line")
	}
	from := string(found[1])
	if from == to {
		return nil
	}
	files, err := sources(dir)
	if err != nil {
		return err
	}
	named, err := packagesNamed(dir, from)
	if err != nil {
		return err
	}
	replaced := requirements(from)
	for _, path := range files {
		change := func(text []byte) ([]byte, error) { return inDocument(inDocument(text, named, to), replaced, to), nil }
		if filepath.Ext(path) == ".go" {
			change = func(text []byte) ([]byte, error) { return inGo(text, from, to) }
		}
		if err := rewrite(path, change); err != nil {
			return err
		}
	}
	// Last: a run that broke off is taken up by the next one.
	return rewrite(filepath.Join(dir, "go.mod"), func(text []byte) ([]byte, error) {
		return moduleLine.ReplaceAllLiteral(text, []byte("module "+to)), nil
	})
}

// sources lists the files that may name the module: Go, documents and the go.mod of modules below, but no test data.
func sources(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.Contains([]string{".go", ".md"}, filepath.Ext(p)) || d.Name() == "go.mod" && filepath.Dir(p) != filepath.Clean(dir) {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the sources: %w", err)
	}
	return files, nil
}

func rewrite(path string, change func([]byte) ([]byte, error)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	changed, err := change(text)
	if err != nil {
		return fmt.Errorf("change %s: %w", path, err)
	}
	if bytes.Equal(text, changed) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	if err := os.WriteFile(path, changed, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write source: %w", err)
	}
	return nil
}

// inGo changes imports alone, and sorts them as gofmt does.
func inGo(text []byte, from, to string) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	changed := slices.Clone(text)
	for _, spec := range slices.Backward(file.Imports) { // backward, so that the places before it stay right
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if path != from && !strings.HasPrefix(path, from+"/") {
			continue
		}
		at, end := fset.Position(spec.Path.Pos()).Offset, fset.Position(spec.Path.End()).Offset
		changed = slices.Replace(changed, at, end, []byte(strconv.Quote(to+path[len(from):]))...)
	}
	if bytes.Equal(changed, text) {
		return text, nil
	}
	return format.Source(changed)
}

// packagesNamed finds the module's path where a folder of the module follows it.
func packagesNamed(dir, from string) (*regexp.Regexp, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the module's folders: %w", err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			folders = append(folders, regexp.QuoteMeta(e.Name()))
		}
	}
	return regexp.Compile(`(^|[^\w./-])` + regexp.QuoteMeta(from) + `(/(?:` + strings.Join(folders, "|") + `)\b)`)
}

// requirements finds the module's path where a go.mod requires or replaces it, or a command says so.
func requirements(from string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)(^replace |^require |^\t|-replace=)` + regexp.QuoteMeta(from) + `( => | v|=)`)
}

func inDocument(text []byte, named *regexp.Regexp, to string) []byte {
	return named.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(to, "$", "$$")+"${2}"))
}
