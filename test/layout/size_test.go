package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits on what a reader must keep in mind.
const (
	maxFile       = 350
	maxFunction   = 70
	maxParameters = 5
)

// contract may be longer: it is the contract of a key, and a reader finds all of it in one file.
const contract = "idempotency/contract_test.go"

// source is one parsed file.
type source struct {
	path string // from the module's root
	fset *token.FileSet
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// at returns the place of a finding, in the form that editors open.
func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		s := source{path: rel, fset: token.NewFileSet()}
		s.file, err = parser.ParseFile(s.fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if n := s.fset.File(s.file.Pos()).LineCount(); n > maxFile && s.path != contract {
			t.Errorf("%s: %d lines, the limit is %d", s.path, n, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.lines(f); n > maxFunction {
				t.Errorf("%s: %s has %d lines, the limit is %d", s.at(f), f.Name.Name, n, maxFunction)
			}
			if n := f.Type.Params.NumFields(); n > maxParameters {
				t.Errorf("%s: %s has %d parameters, the limit is %d", s.at(f), f.Name.Name, n, maxParameters)
			}
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil && !implementsKnownMethod(d) {
					t.Errorf("%s: %s has no comment", s.at(d), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumented(d) {
					t.Errorf("%s: %s has no comment", s.at(name), name.Name)
				}
			}
		}
	}
}

// exportedReceiver reports whether a function, or the type that it is a method of, is exported.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	typ := f.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}

// implementsKnownMethod reports whether a well-known interface defines what a method does.
func implementsKnownMethod(f *ast.FuncDecl) bool {
	known := []string{"Error", "Unwrap", "Is", "String", "LogValue", "MarshalJSON", "UnmarshalJSON", "MarshalText",
		"UnmarshalText", "Describe", "Collect", "Len", "Less", "Swap", "Write", "Close"}
	return f.Recv != nil && slices.Contains(known, f.Name.Name)
}

// undocumented returns the exported names of a declaration without a comment on them or on their group.
func undocumented(d *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// Constructors of variables that packages may have: sentinels and compiled patterns.
var fixed = regexp.MustCompile(`^(errors\.New|fmt\.Errorf|regexp\.MustCompile)$`)

// exceptions are allowed variables; the comment of each says why.
var exceptions = []string{
	"internal/pgtest/pgtest.go: shared",
	"internal/inbox/columns.go: insertClaimed", // statements put together once
	"internal/inbox/columns.go: insertAlone",
}

func TestNoPackageVariables(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() || strings.HasPrefix(s.path, "test/") {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init", s.at(f))
			}
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if ok && !mayBeGlobal(g, v) && !slices.Contains(exceptions, s.path+": "+v.Names[0].Name) {
					t.Errorf("%s: the variable %s", s.at(v), v.Names[0].Name)
				}
			}
		}
	}
}

func mayBeGlobal(g *ast.GenDecl, v *ast.ValueSpec) bool {
	if v.Names[0].Name == "_" || embedded(g.Doc) || embedded(v.Doc) {
		return true
	}
	for _, value := range v.Values {
		call, ok := value.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || !fixed.MatchString(x.Name+"."+sel.Sel.Name) {
			return false
		}
	}
	return len(v.Values) > 0
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

func TestTestsNeitherSkipNorSleep(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		sleeps := !slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on, _ := sel.X.(*ast.Ident) // rapid's Skip discards a drawn value, not the test
			switch name := sel.Sel.Name; {
			case strings.HasPrefix(name, "Skip") && on != nil && slices.Contains([]string{"t", "b", "f", "tb"}, on.Name):
				t.Errorf("%s: a test that skips shows nothing", s.at(call))
			case name == "Sleep" && on != nil && on.Name == "time" && sleeps:
				t.Errorf("%s: wait for the event instead", s.at(call))
			}
			return true
		})
	}
}
