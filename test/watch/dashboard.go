package watch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Dashboard holds the parts of a dashboard's JSON that matter here. tools/dashboards checks all of it against
// Grafana's schema.
type Dashboard struct {
	UID, Title, Description, Timezone, Refresh string
	Tags                                       []string
	Editable                                   bool
	SchemaVersion                              int
	ID                                         *int
	Annotations                                struct{ List []Annotation }
	Templating                                 struct{ List []Variable }
	Panels                                     []Panel
}

// Annotation marks the graphs where its expression has a value.
type Annotation struct {
	Name, Expr string
	Datasource Datasource
}

// Variable is a choice of the dashboard's reader.
type Variable struct {
	Name, Type, Label, Description, AllValue string
	Query                                    any
	Datasource                               Datasource
	IncludeAll                               bool
	Current                                  struct{ Value any }
}

// Datasource names the source of an answer.
type Datasource struct{ Type, UID string }

// Panel is one field of the dashboard.
type Panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               Datasource
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []Target
	FieldConfig              struct{ Defaults struct{ Unit string } }
}

// Target is one query of a panel.
type Target struct {
	RefID, Expr, LegendFormat string
	Datasource                Datasource
}

// ReadDashboard reads the dashboard of configs/grafana under root.
func ReadDashboard(root string) (*Dashboard, error) {
	raw, err := os.ReadFile(filepath.Join(root, "configs", "grafana", "dashboards", "gateway.json"))
	if err != nil {
		return nil, err
	}
	var d Dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	return &d, nil
}

// Chosen holds values for the dashboard's variables, including Grafana's own.
type Chosen struct{ Provider, Instance, RateInterval, Range string }

// Fill puts the values into an expression, as Grafana does.
func (c Chosen) Fill(expr string) string {
	return strings.NewReplacer("$__rate_interval", c.RateInterval, "$__range", c.Range,
		"$provider", c.Provider, "$instance", c.Instance).Replace(expr)
}

// RuleText is a rule as its file has it.
type RuleText struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// ReadRules reads every rule of configs/prometheus under root, in the order of the files.
func ReadRules(root string) ([]RuleText, error) {
	files, err := filepath.Glob(filepath.Join(root, "configs", "prometheus", "*rules*.yml"))
	if err != nil {
		return nil, err
	}
	var rules []RuleText
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var text struct{ Groups []struct{ Rules []RuleText } }
		if err := yaml.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, g := range text.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	return rules, nil
}
