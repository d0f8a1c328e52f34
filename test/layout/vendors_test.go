package layout

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

var vendorName = regexp.MustCompile(`(?i)nylas|slack`)

// Everything about a vendor is in its folder below providers, and the list of vendors is in serve.go. A text with
// blanks is for people: help, with vendors as examples.
func TestVendorsUnnamed(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() || strings.HasPrefix(s.path, "providers/") || strings.HasPrefix(s.path, "test/") || s.path == "cmd/gateway/serve.go" {
			continue
		}
		found := func(n ast.Node, text string) {
			if vendorName.MatchString(text) {
				t.Errorf("%s: %.80s names a vendor", s.at(n), text)
			}
		}
		for _, c := range s.file.Comments {
			found(c, c.Text())
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found(n, n.Name)
			case *ast.BasicLit:
				if !strings.Contains(n.Value, " ") {
					found(n, n.Value)
				}
			}
			return true
		})
	}
}
