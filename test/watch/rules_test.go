package watch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// files returns the files of configs/prometheus that match the pattern.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(Root, "configs", "prometheus", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return found
}

func TestPromtoolChecksRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, files(t, "*rules*.yml")...),
		append([]string{"check", "config"}, files(t, "prometheus.yml")...),
	} {
		if out, err := Promtool(t.Context(), nil, args...); err != nil || strings.Contains(out, "FAILED") {
			t.Error(err, out)
		}
	}
}

func TestPromtoolTestsRules(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "*test*.yml") {
		if _, err := Promtool(t.Context(), nil, "test", "rules", file); err != nil {
			t.Error(err)
		}
	}
}

// ruleTests holds a file of unit tests.
type ruleTests struct {
	Tests []struct {
		Name   string
		Alerts []struct {
			Name   string `yaml:"alertname"`
			Firing []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
		Exprs []struct{ Expr string } `yaml:"promql_expr_test"`
	}
}

func TestEveryRuleIsTested(t *testing.T) {
	t.Parallel()
	firing, quiet := make(map[string]bool), make(map[string]bool)
	var exprs []string
	for _, file := range files(t, "*test*.yml") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests ruleTests
		if err := yaml.Unmarshal(raw, &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range tests.Tests {
			for _, alert := range test.Alerts {
				if len(alert.Firing) > 0 {
					firing[alert.Name] = true
				} else {
					quiet[alert.Name] = true
				}
			}
			for _, e := range test.Exprs {
				exprs = append(exprs, e.Expr)
			}
		}
	}
	for _, rule := range rules(t) {
		switch {
		case rule.Alert != "" && (!firing[rule.Alert] || !quiet[rule.Alert]):
			t.Errorf("%s: tested firing: %v, not firing: %v", rule.Alert, firing[rule.Alert], quiet[rule.Alert])
		case rule.Record != "" && !slices.ContainsFunc(exprs, func(e string) bool { return strings.Contains(e, rule.Record) }):
			t.Errorf("%s has no test", rule.Record)
		}
	}
}

func rules(t *testing.T) []RuleText {
	t.Helper()
	list, err := ReadRules(Root)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("no rules found")
	}
	return list
}

// headings returns the anchors of the runbook's headings.
func headings(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root, "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(raw), -1) {
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(plain, " ", "-"))
	}
	return anchors
}

func TestAlertTexts(t *testing.T) {
	t.Parallel()
	anchors := headings(t)
	for _, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		for _, name := range []string{"summary", "description", "action"} {
			if text := rule.Annotations[name]; len(text) < 30 || !strings.ContainsAny(text[len(text)-1:], ".?") && !strings.Contains(text, "{{") {
				t.Errorf("%s: its %s is %q", rule.Alert, name, text)
			}
		}
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: its severity is %q", rule.Alert, severity)
		}
		anchor, ok := strings.CutPrefix(rule.Annotations["runbook_url"], "docs/runbook.md#")
		if !ok || anchor != strings.ToLower(rule.Alert) || !slices.Contains(anchors, anchor) {
			t.Errorf("%s: its runbook_url %q does not name its section", rule.Alert, rule.Annotations["runbook_url"])
		}
	}
}

func TestRunbookSections(t *testing.T) {
	t.Parallel()
	anchors := headings(t)
	for _, reason := range []string{"duplicate", "hash_mismatch", "unknown_job", "job_mismatch", "malformed"} {
		if !slices.Contains(anchors, reason) {
			t.Errorf("the runbook has no section for %s", reason)
		}
	}
	for _, anchor := range anchors {
		if strings.HasPrefix(anchor, "gateway") && !slices.ContainsFunc(rules(t), func(r RuleText) bool { return strings.ToLower(r.Alert) == anchor }) {
			t.Errorf("the runbook has a section for %s, which is not an alert", anchor)
		}
	}
}
