// Package dashboards checks, in its tests, that the dashboards of configs/grafana match Grafana's schema.
package dashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Check returns everything in a dashboard's JSON that does not match the schema: unknown, missing or mistyped fields,
// and kinds of panels that we do not use.
func Check(raw []byte) error {
	kinds := cog.NewRuntime()
	kinds.RegisterPanelcfgVariant(timeseries.VariantConfig())
	kinds.RegisterPanelcfgVariant(stat.VariantConfig())
	kinds.RegisterPanelcfgVariant(bargauge.VariantConfig())
	kinds.RegisterDataqueryVariant(prometheus.VariantConfig())

	var strict, d dashboard.Dashboard
	var problems []error
	// UnmarshalJSONStrict never returns nil, only an empty list. It also loses the panels and accepts some unknown
	// fields, so the dashboard is read once more, as Grafana would.
	if err := strict.UnmarshalJSONStrict(raw); err != nil && err.Error() != "" {
		problems = append(problems, err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return errors.Join(append(problems, err)...)
	}
	if err := d.Validate(); err != nil && err.Error() != "" {
		problems = append(problems, err)
	}
	for _, p := range d.Panels {
		if p.Panel == nil {
			continue
		}
		if _, ok := kinds.ConfigForPanelcfgVariant(p.Panel.Type); !ok {
			problems = append(problems, fmt.Errorf("a panel of type %q", p.Panel.Type))
		}
	}
	problems = append(problems, lost(raw, d)...)
	return errors.Join(problems...)
}

// lost finds values that disappear when the dashboard is read and written again: the schema does not know them.
func lost(raw []byte, d dashboard.Dashboard) (problems []error) {
	var was, is any
	again, err := json.Marshal(d)
	if err == nil {
		err = errors.Join(json.Unmarshal(raw, &was), json.Unmarshal(again, &is))
	}
	if err != nil {
		return []error{err}
	}
	walk("dashboard", was, is, func(path string) {
		problems = append(problems, fmt.Errorf("%s is not of the schema", path))
	})
	return problems
}

// walk reports the path of every value of was that is lacks.
func walk(path string, was, is any, tell func(string)) {
	switch was := was.(type) {
	case map[string]any:
		there, _ := is.(map[string]any)
		for name, value := range was {
			if other, ok := there[name]; ok || !empty(value) {
				walk(path+"."+name, value, other, tell)
			}
		}
	case []any:
		there, _ := is.([]any)
		for i, value := range was {
			var other any
			if i < len(there) {
				other = there[i]
			}
			walk(fmt.Sprintf("%s[%d]", path, i), value, other, tell)
		}
	default:
		if !reflect.DeepEqual(was, is) {
			tell(path)
		}
	}
}

// empty reports whether a value may be left out when it is written.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
