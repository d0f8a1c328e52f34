package dashboards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../configs/grafana/dashboards"

func read(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboard in %s: %v", folder, err)
	}
	texts := make(map[string]string)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(raw)
	}
	return texts
}

func TestDashboardsMatchSchema(t *testing.T) {
	t.Parallel()
	for file, text := range read(t) {
		if err := Check([]byte(text)); err != nil {
			t.Errorf("%s:\n%v", file, err)
		}
	}
}

func TestUnknownFieldFound(t *testing.T) {
	t.Parallel()
	for file, text := range read(t) {
		for _, tc := range []struct{ name, old, new string }{
			{"a field of the dashboard", `"uid": "webhook-gateway"`, `"uid": "webhook-gateway", "uidd": "x"`},
			{"no schema version", `"schemaVersion"`, `"schemaVersions"`},
			{"a field of a panel", `"gridPos"`, `"gridPosition"`},
			{"a kind of panel", `"type": "timeseries"`, `"type": "timeserie"`},
			{"a field of a query", `"legendFormat"`, `"legend"`},
			{"a query without expression", `"expr"`, `"expression"`},
			{"a default of a panel", `"unit"`, `"units"`},
			{"an option of a panel", `"displayMode": "list"`, `"displayMode": "list", "display": 1`},
			{"a style of a graph", `"drawStyle"`, `"drawing"`},
			{"a variable", `"includeAll"`, `"includeEverything"`},
			{"an annotation", `"iconColor"`, `"iconColour"`},
			{"a number for a text", `"legendFormat": "accepted"`, `"legendFormat": 5`},
		} {
			broken := strings.Replace(text, tc.old, tc.new, 1)
			if broken == text {
				t.Fatalf("%s: %s has no %s to break", tc.name, file, tc.old)
			}
			if Check([]byte(broken)) == nil {
				t.Errorf("%s: %s in place of %s was not found", tc.name, tc.new, tc.old)
			}
		}
	}
}
