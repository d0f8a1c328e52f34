package watch

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func dashboard(t *testing.T) *Dashboard {
	t.Helper()
	d, err := ReadDashboard(Root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drawn returns the panels that show something.
func (d *Dashboard) drawn() []Panel {
	return slices.DeleteFunc(slices.Clone(d.Panels), func(p Panel) bool { return p.Type == "row" })
}

func TestDashboardIsPortable(t *testing.T) {
	t.Parallel()
	d := dashboard(t)
	if d.UID == "" || d.Title == "" || d.Description == "" || d.ID != nil || d.Editable || d.SchemaVersion != 42 || len(d.Tags) == 0 {
		t.Errorf("uid %q, title %q, description %q, id %v, editable %v, schema %d, tags %v",
			d.UID, d.Title, d.Description, d.ID, d.Editable, d.SchemaVersion, d.Tags)
	}
	if v := d.Templating.List[0]; v.Name != "datasource" || v.Type != "datasource" || v.Query != "prometheus" {
		t.Errorf("the first variable is %+v, want the data source", v)
	}
	chosen := Datasource{Type: "prometheus", UID: "${datasource}"}
	var all []Datasource
	for _, p := range d.drawn() {
		all = append(all, p.Datasource)
		for _, target := range p.Targets {
			all = append(all, target.Datasource)
		}
	}
	for _, v := range d.Templating.List[1:] {
		all = append(all, v.Datasource)
		if v.Type != "query" || !v.IncludeAll || v.AllValue != ".*" || v.Label == "" || v.Description == "" {
			t.Errorf("the variable %+v", v)
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, a.Datasource)
	}
	for _, ds := range all {
		if ds != chosen {
			t.Errorf("a data source is %+v, want the one that is chosen", ds)
		}
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"datasource", "provider", "instance"}) {
		t.Errorf("the variables are %v", names)
	}
}

func TestPanelTexts(t *testing.T) {
	t.Parallel()
	// The units of Grafana that the dashboard uses.
	units := []string{"cps", "percentunit", "s", "d", "short", "bytes"}
	ids, titles := make(map[int]bool), make(map[string]bool)
	for _, p := range dashboard(t).drawn() {
		if p.Title == "" || len(p.Description) < 30 || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || ids[p.ID] || titles[p.Title] {
			t.Errorf("panel %d %q: description %q, unit %q, or there is another one like it", p.ID, p.Title, p.Description, p.FieldConfig.Defaults.Unit)
		}
		ids[p.ID], titles[p.Title] = true, true
		if len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if target.LegendFormat == "" || refs[target.RefID] {
				t.Errorf("%s %s: legend %q, or there is another one like it", p.Title, target.RefID, target.LegendFormat)
			}
			refs[target.RefID] = true
		}
	}
}

// A fixed range shows nothing when the step is larger, or hides short events.
func TestPanelRanges(t *testing.T) {
	t.Parallel()
	ranges := regexp.MustCompile(`\[([^\]]+)\]`)
	for _, p := range dashboard(t).drawn() {
		for _, target := range p.Targets {
			for _, m := range ranges.FindAllStringSubmatch(target.Expr, -1) {
				if m[1] != "$__rate_interval" && m[1] != "$__range" && m[1] != ".]0)?" && m[1] != "." {
					t.Errorf("%s %s asks for %s", p.Title, target.RefID, m[0])
				}
			}
			if strings.Contains(target.Expr, "instance") != strings.Contains(target.Expr, "$instance") && !strings.Contains(target.Expr, "by (instance)") {
				t.Errorf("%s %s names an instance itself", p.Title, target.RefID)
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	taken := make(map[[2]int]string)
	for _, p := range dashboard(t).Panels {
		g := p.GridPos
		if g.X+g.W > 24 || g.W == 0 || g.H == 0 {
			t.Errorf("%s lies at %+v, outside of 24 columns", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
