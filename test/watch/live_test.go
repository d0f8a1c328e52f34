package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/pgtest"
	"webhook-gateway/test/binary"
)

func TestMain(m *testing.M) { binary.Main(m) }

// live is a gateway that has received every kind of traffic, and a Prometheus that has scraped all of it.
type live struct {
	*Traffic
	*Prometheus
	gateway *Gateway
	at      time.Time // when everything was scraped and recorded
}

// deadGateway is an address where nothing listens, for the alert on a gateway that is down.
const deadGateway = "127.0.0.1:1"

func startLive(t *testing.T) *live {
	t.Helper()
	ctx := t.Context()
	server := pgtest.NewServer(t, pgtest.Options{Fsync: true})
	url := server.URL(pgtest.Database)
	holdOldDay(t, url)
	dir := t.TempDir()
	path, err := binary.Path()
	if err != nil {
		t.Fatal(err)
	}
	g, err := StartGateway(ctx, path, url, dir, Settings()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	to, err := Register(ctx, g)
	if err != nil {
		t.Fatal(err)
	}
	if err := history(g).Write(ctx, dir); err != nil {
		t.Fatal(err)
	}
	p, err := StartPrometheus(ctx, Root, dir, Scrapes{
		Targets: []string{g.Admin, deadGateway}, Interval: 250 * time.Millisecond, Rules: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := &live{Traffic: NewTraffic(g, to), Prometheus: p, gateway: g}
	l.scraped(t, 0) // so that every series exists before the traffic
	if err := l.EveryOutcome(ctx, server); err != nil {
		t.Fatal(err)
	}
	nylas, _ := l.Nylas().Answered()
	slack, _ := l.Slack().Answered()
	l.scraped(t, float64(nylas+slack))
	l.recorded(t)
	return l
}

// holdOldDay makes a day of the inbox that is past its retention, and keeps reading it until PostgreSQL stops, so
// that a sweep cannot remove it.
func holdOldDay(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	day := time.Now().UTC().AddDate(0, 0, -60)
	name := "agent.webhook_deliveries_" + day.Format("20060102")
	for _, sql := range []string{
		fmt.Sprintf(`CREATE TABLE %s PARTITION OF agent.webhook_deliveries FOR VALUES FROM ('%[2]s 00:00:00+00') TO ('%[2]s 24:00:00+00')`, name, day.Format(time.DateOnly)),
		`BEGIN`,
		`SELECT count(*) FROM ` + name,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// history returns the past that alerts with a long offset compare with: last week both vendors were busy at this
// hour, and half of what Nylas sent since yesterday belonged to no job.
func history(g *Gateway) *History {
	h := &History{}
	now := time.Now()
	week := now.Add(-7 * 24 * time.Hour)
	for provider, each := range map[string]float64{"slack": 2, "nylas": 10} {
		h.Add(fmt.Sprintf(`gateway_deliveries_received_total{job="gateway",instance=%q,provider=%q}`, g.Admin, provider),
			week.Add(-2*time.Hour), week.Add(10*time.Minute), 1000, each)
	}
	h.Add(`provider_reason:gateway_deliveries_dropped:ratio_rate1d{provider="nylas",reason="unknown_job"}`,
		now.Add(-2*time.Hour), now.Add(-20*time.Minute), 0.5, 0)
	return h
}

// scraped waits until Prometheus has scraped that many answers.
func (l *live) scraped(t *testing.T, answers float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := until(ctx, fmt.Sprintf("%v answers are scraped", answers), func() (bool, error) {
		got, err := l.Query(ctx, `sum(gateway_vendor_answers_total)`, time.Now())
		if err == nil && len(got) == 1 && got[0].Value > answers {
			t.Fatalf("%v answers were scraped, and %v requests were sent", got[0].Value, answers)
		}
		return err == nil && len(got) == 1 && got[0].Value == answers, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// recorded waits until every rule has been evaluated twice since everything was scraped, because alerts use what other
// groups record, and until a scrape finds a connection to PostgreSQL idle: in one that comes while the gateway reads the
// directory, all of a small pool may be in use.
func (l *live) recorded(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	from := time.Now().Add(1200 * time.Millisecond)
	evaluated := until(ctx, "every rule is evaluated", func() (bool, error) {
		rules, err := l.Rules(ctx)
		return err == nil && len(rules) > 0 && !slices.ContainsFunc(rules, func(r Rule) bool { return !r.LastEvaluation.After(from) }), err
	})
	idle := until(ctx, "a connection is idle", func() (bool, error) {
		l.at = time.Now()
		got, err := l.Query(ctx, `sum(gateway_db_pool_connections{state="idle"})`, l.at)
		return err == nil && len(got) == 1 && got[0].Value > 0, err
	})
	if err := errors.Join(evaluated, idle); err != nil {
		t.Fatal(err)
	}
}

// ask evaluates an expression and returns its series by their labels, as in provider=nylas,reason=duplicate.
func (l *live) ask(t *testing.T, expr string) map[string]float64 {
	t.Helper()
	samples, err := l.Query(t.Context(), expr, l.at)
	if err != nil {
		t.Error(err)
		return nil
	}
	got := make(map[string]float64)
	for _, s := range samples {
		delete(s.Labels, "__name__")
		var labels []string
		for name, value := range s.Labels {
			labels = append(labels, name+"="+value)
		}
		slices.Sort(labels)
		got[strings.Join(labels, ",")] = s.Value
	}
	return got
}

// check compares the series of an expression with those that the traffic implies.
func (l *live) check(t *testing.T, name, expr string, want series) {
	t.Helper()
	got := l.ask(t, expr)
	for labels, is := range want {
		value, ok := got[labels]
		if !ok {
			t.Errorf("%s: the series {%s} is missing, there is %v\n%s", name, labels, got, expr)
		} else if problem := is(value); problem != "" {
			t.Errorf("%s: {%s} is %v, want %s\n%s", name, labels, value, problem, expr)
		}
	}
	for labels, value := range got {
		if _, ok := want[labels]; !ok {
			t.Errorf("%s: the series {%s} %v should not be there\n%s", name, labels, value, expr)
		}
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	d := dashboard(t)
	chosen := Chosen{Provider: ".*", Instance: ".*", RateInterval: "5m", Range: "1h"}

	t.Run("panels", func(t *testing.T) {
		want := l.panels()
		for _, p := range d.drawn() {
			for _, target := range p.Targets {
				name := p.Title + " " + target.RefID
				expected, ok := want[name]
				if !ok {
					t.Errorf("%s: the test lists no result for it", name)
					continue
				}
				delete(want, name)
				l.check(t, name, chosen.Fill(target.Expr), expected)
			}
		}
		for name := range want {
			t.Errorf("%s: no such panel", name)
		}
	})
	t.Run("panels of one provider", func(t *testing.T) {
		one := chosen
		one.Provider, one.Instance = "nylas", regexp.QuoteMeta(l.gateway.Admin)
		for _, p := range d.drawn() {
			for _, target := range p.Targets {
				got := l.ask(t, strings.ReplaceAll(one.Fill(target.Expr), `\.`, `[.]`))
				if len(got) == 0 {
					t.Errorf("%s %s: nothing is left", p.Title, target.RefID)
				}
				for labels := range got {
					if strings.Contains(labels, "slack") || strings.Contains(labels, deadGateway) {
						t.Errorf("%s %s: {%s} was not chosen", p.Title, target.RefID, labels)
					}
				}
			}
		}
	})
	t.Run("variables and annotations", func(t *testing.T) { l.checkVariables(t, d) })
	t.Run("rules", func(t *testing.T) { l.checkRules(t) })
	t.Run("names", func(t *testing.T) { l.checkNames(t, d) })
	t.Run("promtool check metrics", func(t *testing.T) {
		text, err := l.gateway.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := Promtool(t.Context(), text, "check", "metrics"); err != nil || out != "" {
			t.Error(err, out)
		}
	})
}

func (l *live) checkVariables(t *testing.T, d *Dashboard) {
	values := regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z]+)\)$`)
	want := map[string][]string{"provider": {"nylas", "slack"}, "instance": {l.gateway.Admin}}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		query, _ := v.Query.(map[string]any)
		text, _ := query["query"].(string)
		m := values.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s asks for %q", v.Name, text)
			continue
		}
		if got, err := l.LabelValues(t.Context(), m[2], m[1]); err != nil || !slices.Equal(got, want[v.Name]) {
			t.Errorf("%s offers %v, %v; want %v", v.Name, got, err, want[v.Name])
		}
	}
	if len(d.Annotations.List) != 1 {
		t.Fatalf("%d annotations", len(d.Annotations.List))
	}
	// The alerts that fire at once; the others are pending.
	l.check(t, "the annotation", d.Annotations.List[0].Expr, series{
		"alertname=GatewayHashMismatch,provider=nylas,severity=warning":   exactly(1),
		"alertname=GatewaySwitchOffNear,provider=slack,severity=critical": exactly(1),
	})
}

func (l *live) checkRules(t *testing.T) {
	want := l.rules()
	for _, rule := range rules(t) {
		name := rule.Record + rule.Alert
		expected, ok := want[name]
		if !ok {
			t.Errorf("%s: the test lists no result for it", name)
			continue
		}
		delete(want, name)
		l.check(t, name, rule.Expr, expected)
		if rule.Record != "" {
			l.check(t, name+" as recorded", rule.Record, expected)
		}
	}
	for name := range want {
		t.Errorf("%s: no such rule", name)
	}
	seen, err := l.Rules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range seen {
		if r.Health != "ok" {
			t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
		}
	}
}

// An expression that returns nothing in good times would do the same with a misspelt name.
func (l *live) checkNames(t *testing.T, d *Dashboard) {
	known, err := l.LabelValues(t.Context(), "__name__", "")
	if err != nil {
		t.Fatal(err)
	}
	exprs := make(map[string]string)
	for _, p := range d.drawn() {
		for _, target := range p.Targets {
			exprs[p.Title] += target.Expr + " "
		}
	}
	for _, r := range rules(t) {
		exprs[r.Record+r.Alert] = r.Expr
	}
	names := regexp.MustCompile(`\b(?:[a-z_]+:)?(?:gateway|process)_[a-z_]+(?::[a-z0-9_]+)?`)
	for of, expr := range exprs {
		for _, name := range names.FindAllString(expr, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s asks for %s, which is neither exported nor recorded", of, name)
			}
		}
	}
	// Every metric of the gateway is on the dashboard, in a rule, or in unwatched.
	all := strings.Join(slices.Collect(maps.Values(exprs)), " ")
	for _, name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(base, "gateway_") && !strings.Contains(all, base) && !slices.Contains(unwatched, base) {
			t.Errorf("%s is neither on the dashboard nor in a rule", name)
		}
	}
}

// unwatched are metrics for a closer look.
var unwatched = []string{
	"gateway_build_info", "gateway_directory_refreshes_total", "gateway_directory_sources", "gateway_directory_jobs",
	"gateway_db_fsync_off", "gateway_directory_old_seals", "gateway_requests_refused_total",
	"gateway_connections", "gateway_connections_limit", "gateway_connections_closed_total",
}
