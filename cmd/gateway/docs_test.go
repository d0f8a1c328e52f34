package main

import (
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/logsink"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/jobs"
)

const readmeFile = "README.md"

// family is a metric's labels, and the values that each of them has.
type family map[string]map[string]bool

// scraped is what a scrape of a gateway shows that has received nothing yet.
func scraped(t *testing.T) map[string]family {
	t.Helper()
	cfg, err := configs.Load("", []string{"HOME=/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := jobs.NewKeys(testKey)
	if err != nil {
		t.Fatal(err)
	}
	reg, pool := prometheus.NewRegistry(), pgtest.Pool(t)
	gateway.RegisterProcess(reg, pool)
	sink := logsink.New(io.Discard, reg)
	g, err := gateway.New(gateway.Base{Config: cfg, Vendors: vendors(), Pool: pool, Keys: keys, Registry: reg, Log: gateway.NewLogger(sink, cfg)})
	if err != nil {
		t.Fatal(err)
	}
	g.Stop(t.Context())
	_ = sink.Close() // it returns no error
	gathered, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := make(map[string]family)
	for _, f := range gathered {
		if !strings.HasPrefix(f.GetName(), "gateway_") {
			continue
		}
		labels := family{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == nil {
					labels[l.GetName()] = map[string]bool{}
				}
				labels[l.GetName()][l.GetValue()] = true
			}
		}
		families[f.GetName()] = labels
	}
	return families
}

func (f family) values(label string) []string { return slices.Sorted(maps.Keys(f[label])) }

func TestReadmeMetrics(t *testing.T) {
	t.Parallel()
	families, readme := scraped(t), readDoc(t, readmeFile)
	want := make(map[string]string)
	for name, labels := range families {
		want[name] = strings.Join(slices.Sorted(maps.Keys(labels)), ", ")
	}
	got := make(map[string]string)
	for _, row := range readme.table(t, "metric") {
		got[bare(row[0])] = bare(row[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of metrics and their labels (-want +got):\n%s", diff)
	}

	var reasons []string
	for _, row := range readme.table(t, "reason") {
		reasons = append(reasons, bare(row[0]))
	}
	var known []string
	for _, r := range drops.Reasons() {
		known = append(known, string(r))
	}
	if diff := cmp.Diff(known, reasons); diff != "" {
		t.Errorf("the table of reasons to drop (-want +got):\n%s", diff)
	}

	codes := map[string]bool{}
	var answers strings.Builder
	for _, row := range readme.table(t, "answer") {
		codes[row[0][:3]] = true
		answers.WriteString(row[1] + row[2])
	}
	for _, ofNoProvider := range []string{"405", "431", "505"} {
		delete(codes, ofNoProvider)
	}
	if diff := cmp.Diff(families["gateway_vendor_answers_total"].values("code"), slices.Sorted(maps.Keys(codes))); diff != "" {
		t.Errorf("the table of answers (-want +got):\n%s", diff)
	}
	for _, reason := range slices.Concat(families["gateway_requests_rejected_total"].values("reason"), families["gateway_requests_refused_total"].values("reason")) {
		if !strings.Contains(answers.String(), "(`"+reason+"`") {
			t.Errorf("the table of answers lacks the reason %s", reason)
		}
	}
	for _, d := range docs(t) {
		for _, name := range regexp.MustCompile(`\bgateway_[a-z_]+`).FindAllString(d.text, -1) {
			part := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if families[name] == nil && families[part] == nil {
				t.Errorf("%s: unknown metric %s", d.path, name)
			}
		}
	}
}

func TestDocsSettings(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"GATEWAY_PG_BIN": true}
	for _, s := range configs.Settings() {
		known[s.Name] = true
	}
	for _, d := range docs(t) {
		for _, name := range regexp.MustCompile(`\bGATEWAY_[A-Z_]+\b`).FindAllString(d.text, -1) {
			if !known[name] && name != "GATEWAY_" {
				t.Errorf("%s: unknown setting %s", d.path, name)
			}
		}
	}
}

// leaves lists the commands that do something, by their whole name.
func leaves(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, leaves(c)...)
	}
	if len(names) == 0 {
		names = append(names, cmd.CommandPath())
	}
	return names
}

func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	readme, got := readDoc(t, readmeFile), []string{}
	for _, row := range readme.table(t, "command") {
		got = append(got, bare(row[0]))
	}
	want := leaves(newRoot(streams{}))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of commands (-want +got):\n%s", diff)
	}
	var statuses []string
	for _, row := range readme.table(t, "exit status") {
		statuses = append(statuses, row[0])
	}
	var known []string
	for _, status := range []int{exitOK, exitFailed, exitUsage, exitConfig, exitUnreachable, exitMismatch} {
		known = append(known, strconv.Itoa(status))
	}
	if diff := cmp.Diff(known, statuses); diff != "" {
		t.Errorf("the table of exit statuses (-want +got):\n%s", diff)
	}
}

func TestDocsCommands(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{"help": true}
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(c.LocalFlags().FlagUsages(), -1) {
			flags[m[1]] = true
		}
		for _, child := range c.Commands() {
			collect(child)
		}
	}
	collect(newRoot(streams{}))
	seen := 0
	for _, d := range docs(t) {
		for _, words := range d.commandLines() {
			seen++
			if problem := typed(newRoot(streams{}), words); problem != "" {
				t.Errorf("%s: gateway %s: %s", d.path, strings.Join(words, " "), problem)
			}
		}
		for _, span := range d.spans() {
			name, isFlag := strings.CutPrefix(strings.Fields(span)[0], "--")
			if isFlag && d.path == readmeFile && !flags[name] {
				t.Errorf("%s: no command has the flag --%s", d.path, name)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands were found in the docs", seen)
	}
}

// typed says what is wrong with the words behind gateway.
func typed(cmd *cobra.Command, words []string) string {
	for len(words) > 0 && cmd.HasSubCommands() && !strings.HasPrefix(words[0], "-") {
		name := words[0]
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			return "unknown command " + name
		}
		cmd, words = cmd.Commands()[i], words[1:]
	}
	cmd.InheritedFlags() // which makes Flag know them
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "help" && cmd.Flag(name) == nil {
			return "it has no flag --" + name
		}
	}
	return ""
}

func TestDocsMakeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(docsRoot, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs(t) {
		for _, code := range append(d.spans(), d.blocks...) {
			words := strings.Fields(code)
			if len(words) < 2 || words[0] != "make" {
				continue
			}
			if !strings.Contains(string(makefile), "\n"+words[1]+":") {
				t.Errorf("%s: unknown make target %s", d.path, words[1])
			}
		}
	}
}

func TestDocsLinks(t *testing.T) {
	t.Parallel()
	for _, d := range docs(t) {
		for _, link := range d.links() {
			file, anchor := link[0], link[1]
			if _, err := os.Stat(filepath.Join(docsRoot, file)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", d.path, file)
				continue
			}
			if anchor != "" && !slices.Contains(readDoc(t, file).anchors(), anchor) {
				t.Errorf("%s: %s has no heading for #%s", d.path, file, anchor)
			}
		}
	}
}

// A path in backquotes has a slash in it or is named like a file.
var docPath = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)*/?$`)

func TestDocsPaths(t *testing.T) {
	t.Parallel()
	packages := imported(t) // which look like paths
	for _, d := range docs(t) {
		if d.path != "docs/ARCHITECTURE.md" && d.path != "docs/CONTRIBUTING.md" && !strings.HasPrefix(d.path, "docs/decisions/") {
			continue
		}
		for _, span := range d.spans() {
			named := slices.Contains([]string{".go", ".md", ".sql", ".mod", ".yaml", ".env"}, filepath.Ext(span))
			if packages[span] || !docPath.MatchString(span) || !named && !strings.Contains(span, "/") {
				continue
			}
			found, err := filepath.Glob(filepath.Join(docsRoot, span))
			if err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", d.path, span)
			}
		}
	}
}

// imported is every package that the module imports, and every module of others that they are of.
func imported(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, path := range filesOf(t, ".go") {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(docsRoot, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			all[strings.Trim(i.Path.Value, `"`)] = true
		}
	}
	content, err := os.ReadFile(filepath.Join(docsRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\s+(\S+) v\S+`).FindAllStringSubmatch(string(content), -1) {
		for path := range all {
			if strings.HasPrefix(path, m[1]+"/") {
				all[m[1]] = true
				break
			}
		}
	}
	return all
}

func TestDocsModules(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(docsRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := func(module string) bool { return strings.Contains(string(content), "\t"+module+" v") }
	listed := map[string]bool{}
	for _, row := range readDoc(t, "docs/decisions/0010-dependencies.md").table(t, "module") {
		listed[bare(row[0])] = true
		if !required(bare(row[0])) {
			t.Errorf("%s has a reason and is not in go.mod", bare(row[0]))
		}
	}
	for path := range imported(t) {
		if required(path) && !listed[path] {
			t.Errorf("%s is imported and has no reason in docs/decisions/0010-dependencies.md", path)
		}
	}
}
