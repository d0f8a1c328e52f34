// Command draw makes the pictures of the dashboard in docs/dashboard: it runs a gateway under traffic and a
// Prometheus that scrapes it, asks for what the panels ask for, and draws it much as Grafana would.
//
//	go run ./test/watch/draw
//
// It needs what the tests need (make postgres prometheus), and rsvg-convert to make PNG of SVG (Debian:
// librsvg2-bin).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/test/binary"
	"webhook-gateway/test/watch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := flag.String("out", "docs/dashboard", "folder for the pictures")
	duration := flag.Duration("for", 4*time.Minute, "how long to send traffic")
	flag.Parse()
	if err := run(ctx, *out, *duration); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// pictures are the rows of the dashboard, by the picture that shows them.
func pictures() map[string][]string {
	return map[string][]string{
		"drops":   {"At a glance", "Drops"},
		"answers": {"Requests", "Answers to vendors"},
		"storage": {"Settling", "Database", "Sweeps", "Processes"},
	}
}

func run(ctx context.Context, out string, duration time.Duration) (err error) {
	if _, err := exec.LookPath("rsvg-convert"); err != nil {
		return errors.New("rsvg-convert is not installed; run: apt-get install librsvg2-bin")
	}
	dir, err := os.MkdirTemp("", "gateway-draw")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := devdb.Start(ctx, devdb.Options{Dir: filepath.Join(dir, "postgres"), Fsync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	g, err := serve(ctx, dir, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	p, err := watch.StartPrometheus(ctx, ".", dir, watch.Scrapes{Targets: []string{g.Admin}, Interval: time.Second, Rules: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()

	town, err := watch.Settle(ctx, g)
	if err != nil {
		return err
	}
	began := time.Now()
	fmt.Fprintf(os.Stderr, "sending traffic for %s\n", duration)
	if err := newPlay(watch.NewTraffic(g, town), server, duration).run(ctx); err != nil {
		return err
	}
	return drawAll(ctx, p, out, began.Add(15*time.Second), time.Now())
}

// serve builds the gateway and starts it on a new database.
func serve(ctx context.Context, dir string, server *devdb.Server) (*watch.Gateway, error) {
	url, err := server.Create(ctx, "gateway")
	if err != nil {
		return nil, err
	}
	path, err := binary.Build(ctx, ".", dir)
	if err != nil {
		return nil, err
	}
	migrate := exec.CommandContext(ctx, path, "migrate", "up")
	migrate.Env = append(os.Environ(), "DATABASE_URL="+url)
	if text, err := migrate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("migrate: %w: %s", err, text)
	}
	return watch.StartGateway(ctx, path, url, dir, watch.Settings()...)
}

func drawAll(ctx context.Context, p *watch.Prometheus, out string, from, to time.Time) error {
	dashboard, err := watch.ReadDashboard(".")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, rows := range pictures() {
		page := newPage()
		for _, panel := range panelsOf(dashboard, rows) {
			if panel.Type == "row" {
				page.row(panel)
				continue
			}
			lines, err := ask(ctx, p, panel, from, to)
			if err != nil {
				return err
			}
			page.panel(panel, lines, from, to)
		}
		svg := page.svg()
		file := filepath.Join(out, name+".png")
		convert := exec.CommandContext(ctx, "rsvg-convert", "--format=png", "--output="+file)
		convert.Stdin = svg
		if text, err := convert.CombinedOutput(); err != nil {
			return fmt.Errorf("draw %s: %w: %s", file, err, text)
		}
		fmt.Fprintln(os.Stderr, "drew", file)
	}
	return nil
}

// panelsOf lists the panels of the rows, in their order, the rows' own headings among them.
func panelsOf(d *watch.Dashboard, rows []string) []watch.Panel {
	var list []watch.Panel
	wanted := false
	for _, p := range d.Panels {
		if p.Type == "row" {
			wanted = false
			for _, title := range rows {
				wanted = wanted || title == p.Title
			}
		}
		if wanted {
			list = append(list, p)
		}
	}
	return list
}

// line is one series of a panel, under the name that its legend gives it.
type line struct {
	name   string
	points []watch.Point
}

// ask asks Prometheus what the panel asks.
func ask(ctx context.Context, p *watch.Prometheus, panel watch.Panel, from, to time.Time) ([]line, error) {
	chosen := watch.Chosen{Provider: ".*", Instance: ".*", RateInterval: "15s", Range: "1h"}
	var lines []line
	for _, target := range panel.Targets {
		found, err := p.QueryRange(ctx, chosen.Fill(target.Expr), from, to, 2*time.Second)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", panel.Title, err)
		}
		for _, s := range found {
			lines = append(lines, line{name: legend(target.LegendFormat, s.Labels), points: s.Points})
		}
	}
	return lines, nil
}
