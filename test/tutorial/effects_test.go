package tutorial

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"webhook-gateway/idempotency"
)

const effects = "../../docs/effects.md"

// unindented returns a text without the beginnings of its lines.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(text, "")
}

func TestEffectsCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../idempotency/example*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../idempotency/httpdoor/example_test.go")
	var examples strings.Builder
	for _, path := range files {
		examples.WriteString(unindented(read(t, path)))
	}
	blocks := regexp.MustCompile("(?ms)^```go\\n(.*?)^```$").FindAllStringSubmatch(read(t, effects), -1)
	for _, m := range blocks {
		if !strings.Contains(examples.String(), unindented(m[1])) {
			t.Errorf("no example of idempotency has this code:\n%s", m[1])
		}
	}
	if len(blocks) < 8 {
		t.Errorf("only %d pieces of code were found", len(blocks))
	}
}

// remembered matches a line of a table of scopes.
var remembered = regexp.MustCompile("(?m)^(?:\\| `|//\t)((?:tool|surface|http)\\.[a-z*]+)(?:` \\|)? +(\\d+) days?\\b")

func TestDocsScopes(t *testing.T) {
	t.Parallel()
	for _, path := range []string{effects, "../../idempotency/doc.go"} {
		rows := remembered.FindAllStringSubmatch(read(t, path), -1)
		if len(rows) != 3 {
			t.Errorf("%s lists %d scopes, want 3", path, len(rows))
		}
		for _, row := range rows {
			days, _ := strconv.Atoi(row[2]) // it is digits
			scope := idempotency.MustScope(strings.Replace(row[1], "*", "x", 1))
			if want := time.Duration(days) * 24 * time.Hour; scope.Retention() != want {
				t.Errorf("%s says %s for %s, it is %s", path, want, row[1], scope.Retention())
			}
		}
	}
}
