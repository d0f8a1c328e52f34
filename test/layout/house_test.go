package layout

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// room is one of the module's packages: what it knows, and which others it imports, separated by blanks. A name that
// ends with an asterisk stands for every package below that has no room itself.
type room struct{ group, name, knows, imports string }

// The groups follow a delivery.
const (
	run     = "run"
	receive = "receive"
	store   = "store"
	look    = "count, look at"
	replay  = "replay"
	tests   = "test"
)

// house is the map of the module. A new package needs a new line, which is the moment to think about its place. Then
// run go generate ./test/layout, which draws the map in docs/ARCHITECTURE.md.
func house() []room {
	return []room{
		{run, "cmd/*", "the commands, a file for each: parse flags, call one thing, print its result", "*"},
		{run, "internal/gateway", "a running gateway: puts the parts together, starts and stops them", "configs drops idempotency internal/admin internal/capture internal/connections internal/inbox internal/logsink internal/pg internal/preflight jobs providers"},
		{run, "configs", "the settings: one table, environment over YAML, every problem at once", "internal/dsn internal/files"},
		{run, "internal/registry", "finds the sources and jobs that a command names, in a database or a file of secrets", "internal/capture internal/files internal/safetext jobs providers"},
		{run, "internal/admin", "the private listener: metrics, liveness, readiness, profiles", "configs internal/safetext"},
		{run, "internal/preflight", "whether a database can be used: checked at the start, or tried and rolled back", "idempotency internal/inbox internal/pg jobs migrations providers"},
		{run, "internal/dev", "what `gateway dev` keeps in its folder, starts and registers", "internal/devdb internal/files internal/safetext internal/samples jobs migrations providers"},
		{run, "internal/devdb", "a private PostgreSQL, for `gateway dev` and measurements", "internal/files"},
		{run, "internal/dsn", "what is wrong with a connection string, and what of it may be shown", ""},
		{run, "internal/files", "opens what users name or folders hold: regular files alone, within bounds", ""},
		{run, "internal/logsink", "keeps a stalled log reader from blocking requests", ""},
		{run, "internal/pg", "connections to PostgreSQL: what is set for each session, poolers", "internal/dsn internal/sqlstate"},
		{run, "internal/safetext", "which text is safe to print; escapes the rest", ""},
		{run, "internal/sqlstate", "the codes of PostgreSQL's errors", ""},
		{receive, "providers", "the contract of a vendor, the receiver, the gate; no SQL", "drops internal/canonical internal/gunzip internal/samples internal/scrub jobs"},
		{receive, "providers/*", "one vendor each: all that is known of it", "internal/canonical internal/form internal/samples internal/scrub jobs providers"},
		{receive, "jobs", "sources and jobs: the store, the sealed secrets, the directory in memory", "internal/sqlstate"},
		{receive, "internal/canonical", "JSON read once: an index over the body's bytes, and the fingerprint", ""},
		{receive, "internal/form", "forms, read as browsers do", ""},
		{receive, "internal/gunzip", "inflates gzip within a limit", ""},
		{receive, "internal/connections", "bounds how many connections are open: the oldest that stalls gives way; counts those to PostgreSQL", ""},
		{receive, "internal/samples", "what samples of a vendor's requests are made of", "jobs"},
		{store, "internal/inbox", "the group commit, the inbox's days, the sweep", "drops idempotency internal/sqlstate jobs providers"},
		{store, "idempotency", "the plane: claim, complete, release, in batches and in transactions; knows nothing of webhooks", "internal/canonical internal/sqlstate"},
		{store, "idempotency/*", "the plane before something else: `httpdoor`, an HTTP API whose clients choose the keys", "idempotency"},
		{store, "migrations", "the schema, and how a database is brought up to it", "internal/pg internal/sqlstate"},
		{look, "drops", "the reasons; counts every delivery to its ending, keeps drops within bounds", ""},
		{look, "feed", "reads the inbox: a delivery by its id, deliveries by a filter", ""},
		{look, "internal/clash", "what a `hash_mismatch` clashed with: the delivery, and the values that differ", "drops feed idempotency internal/form providers"},
		{look, "internal/redrive", "sends chosen drops through a gate again, and reports each outcome", "drops feed idempotency internal/inbox jobs providers"},
		{replay, "internal/capture", "captured deliveries: what a vendor sent, byte for byte, and the expected outcome", "drops internal/files internal/safetext internal/scrub jobs providers"},
		{replay, "internal/scrub", "removes from captured bytes what must not be kept", "internal/form internal/gunzip"},
		{replay, "internal/replay", "sends captures, signed anew, and judges answers and outcomes", "drops feed idempotency internal/capture internal/inbox internal/registry jobs providers"},
		{replay, "internal/export", "captures of the deliveries and drops that a database holds", "drops feed internal/capture internal/registry jobs providers"},
		{replay, "internal/send", "sends a sample as a vendor does, and finds what was stored of it", "drops feed internal/samples providers"},
		{replay, "internal/doctor", "finds out why a signature does not fit, by trying", "internal/capture internal/form internal/gunzip internal/registry jobs providers"},
		{tests, "internal/pgtest", "a private PostgreSQL and a migrated database for each test", "internal/devdb internal/pg migrations"},
		{tests, "idempotency/idempotencytest", "databases for the tests of modules that import `idempotency`, and a way to age keys", "internal/pgtest"},
		{tests, "internal/tools/*", "what `make` runs", ""},
		{tests, "test/*", "tests of the whole module, and measurements", "*"},
	}
}

// roomOf returns the room of a package: its own, or that of the nearest folder above.
func roomOf(name string) (room, bool) {
	for try, dir := name, name; ; try = dir + "/*" {
		if i := slices.IndexFunc(house(), func(r room) bool { return r.name == try }); i >= 0 {
			return house()[i], true
		}
		if dir = path.Dir(dir); dir == "." {
			return room{}, false
		}
	}
}

func TestPackagesImportOneWay(t *testing.T) {
	t.Parallel()
	imported := make(map[string][]string) // by room
	for _, p := range packages(t) {
		r, ok := roomOf(p.name())
		if !ok {
			t.Errorf("%s: add it to house", p.name())
			continue
		}
		list := strings.Fields(r.imports)
		imported[r.name] = append(imported[r.name], ours(p, p.Imports)...)
		for _, other := range ours(p, p.Imports) {
			if !matches(list, other) {
				t.Errorf("%s may not import %s", p.name(), other)
			}
		}
		list = slices.Concat(list, testsToo, testsOf[p.name()], []string{p.name(), p.name() + "/*"})
		for _, other := range ours(p, slices.Concat(p.TestImports, p.XTestImports)) {
			if !matches(list, other) {
				t.Errorf("%s's tests may not import %s", p.name(), other)
			}
		}
	}
	for _, r := range house() {
		if _, ok := imported[r.name]; !ok {
			t.Errorf("%s: there is no such package", r.name)
		}
		for _, other := range strings.Fields(r.imports) {
			if other != "*" && !slices.Contains(imported[r.name], other) {
				t.Errorf("%s no longer imports %s: remove it from house", r.name, other)
			}
		}
	}
}

// mapOfHouse returns house as a Markdown table.
func mapOfHouse(*testing.T) string {
	var b strings.Builder
	b.WriteString("| package | what it knows | imports of ours |\n| --- | --- | --- |\n")
	for _, r := range house() {
		imports := "nothing"
		if r.imports == "*" {
			imports = "all"
		} else if list := strings.Fields(r.imports); len(list) > 0 {
			imports = "`" + strings.Join(list, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.name, r.knows, imports)
	}
	return b.String()
}

// picture draws the packages without tests: a column for each group, and every package above those that it imports.
func picture(t *testing.T) string {
	imports := make(map[string][]string)
	for _, p := range packages(t) {
		if r, _ := roomOf(p.name()); r.group != tests {
			imports[p.name()] = ours(p, p.Imports)
		}
	}
	var height func(name string) int
	height = func(name string) (h int) {
		for _, below := range imports[name] {
			h = max(h, height(below)+1)
		}
		return h
	}
	groups := []string{receive, store, look, replay, run}
	top := 0
	floors := make(map[int]map[string][]string) // by height and group
	for name := range imports {
		h, r := height(name), room{}
		r, _ = roomOf(name)
		if floors[h] == nil {
			floors[h] = make(map[string][]string)
		}
		floors[h][r.group] = append(floors[h][r.group], strings.TrimPrefix(name, "internal/"))
		top = max(top, h)
	}
	var b strings.Builder
	line := func(cells []string) {
		var l strings.Builder
		for _, c := range cells {
			fmt.Fprintf(&l, "%-22s", c)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	b.WriteString("```text\n")
	line(groups)
	for h := top; h >= 0; h-- {
		b.WriteString(strings.Repeat("─", 22*len(groups)-4) + "\n")
		for more := 0; ; more++ {
			cells := make([]string, len(groups))
			for i, g := range groups {
				slices.Sort(floors[h][g])
				if list := floors[h][g]; more < len(list) {
					cells[i] = list[more]
				}
			}
			if strings.Join(cells, "") == "" {
				break
			}
			line(cells)
		}
	}
	b.WriteString("```\n")
	return b.String()
}
