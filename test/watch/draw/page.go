package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"webhook-gateway/test/watch"
)

// The measures of a page, in pixels. The dashboard's grid has 24 columns.
const (
	column = 62
	unitH  = 36
	gap    = 8
)

// page collects the panels of a picture.
type page struct {
	body   bytes.Buffer
	top    int // the grid line at which the page begins
	bottom int
}

func newPage() *page { return &page{top: -1} }

// box is where something lies.
type box struct{ x, y, w, h float64 }

func (p *page) place(panel watch.Panel) box {
	g := panel.GridPos
	if p.top < 0 {
		p.top = g.Y
	}
	if g.Y-max(p.bottom, p.top) > 0 { // rows that are on another picture
		p.top += g.Y - max(p.bottom, p.top)
	}
	p.bottom = max(p.bottom, g.Y+g.H)
	return box{float64(g.X*column + gap/2), float64((g.Y-p.top)*unitH + gap/2), float64(g.W*column - gap), float64(g.H*unitH - gap)}
}

// The colors of writing.
const (
	dark = "#24292e"
	gray = "#6e7580"
)

// style is how a text is written.
type style struct {
	size          int
	anchor, color string
}

func (p *page) text(x, y float64, s style, text string) {
	fmt.Fprintf(&p.body, `<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" fill="%s">%s</text>`+"\n",
		x, y, s.size, s.anchor, s.color, html.EscapeString(text))
}

func (p *page) row(panel watch.Panel) {
	at := p.place(panel)
	p.text(at.x+4, at.y+19, style{15, "start", dark}, "▾ "+panel.Title)
}

// panel draws one panel and what it shows.
func (p *page) panel(panel watch.Panel, lines []line, from, to time.Time) {
	b := p.place(panel)
	fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#ffffff" stroke="#e0e3e8" rx="3"/>`+"\n", b.x, b.y, b.w, b.h)
	p.text(b.x+10, b.y+20, style{13, "start", dark}, panel.Title)
	switch panel.Type {
	case "stat":
		p.stat(panel, lines, b)
	case "bargauge":
		p.bars(panel, lines, b)
	default:
		p.graph(graph{
			panel: panel, lines: lines, from: from, to: to,
			box: box{b.x + 62, b.y + 32, b.w - 76, b.h - 88}, legend: box{b.x + 12, b.y + b.h - 28, b.w - 24, 16},
		})
	}
}

func last(l line) (float64, bool) {
	for _, point := range slices.Backward(l.points) {
		if !math.IsNaN(point.Value) {
			return point.Value, true
		}
	}
	return 0, false
}

func (p *page) stat(panel watch.Panel, lines []line, b box) {
	shown := lines[:0:0]
	for _, l := range lines {
		if _, ok := last(l); ok {
			shown = append(shown, l)
		}
	}
	for i, l := range shown {
		value, _ := last(l)
		middle := b.x + b.w*(float64(i)+0.5)/float64(len(shown))
		size := 34
		if len(shown) > 1 {
			size = 24
			p.text(middle, b.y+b.h-14, style{11, "middle", gray}, l.name)
		}
		p.text(middle, b.y+b.h/2+20, style{size, "middle", threshold(panel, value)}, rounded(panel, value))
	}
}

func (p *page) bars(panel watch.Panel, lines []line, b box) {
	full := 1.0
	if m := panel.FieldConfig.Defaults.Max; m != nil {
		full = *m
	}
	each := (b.h - 44) / float64(max(len(lines), 1))
	for i, l := range lines {
		value, _ := last(l)
		at := b.y + 40 + each*float64(i)
		p.text(b.x+12, at+12, style{12, "start", dark}, l.name)
		fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="22" fill="#eef0f3"/>`+"\n", b.x+12, at+18, b.w-90)
		fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="22" fill="%s"/>`+"\n",
			b.x+12, at+18, max(0, (b.w-90)*min(value/full, 1)), threshold(panel, value))
		p.text(b.x+b.w-12, at+34, style{14, "end", threshold(panel, value)}, rounded(panel, value))
	}
}

// rounded writes a value in the panel's unit, with its decimals.
func rounded(panel watch.Panel, value float64) string {
	d := panel.FieldConfig.Defaults
	if d.Decimals != nil {
		power := math.Pow(10, float64(*d.Decimals))
		if d.Unit == "percentunit" {
			power *= 100
		}
		value = math.Round(value*power) / power
	}
	return format(d.Unit, value)
}

// threshold is the color of a value.
func threshold(panel watch.Panel, value float64) string {
	color := "green"
	for _, step := range panel.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			color = step.Color
		}
	}
	return named(color)
}

func named(color string) string {
	switch color {
	case "green":
		return "#3f9c4b"
	case "red":
		return "#d6323b"
	case "orange":
		return "#e8832a"
	case "yellow":
		return "#e0b400"
	case "blue":
		return "#3b74c7"
	case "purple":
		return "#8f4bb8"
	case "semi-dark-purple":
		return "#6a3391"
	}
	return color
}

var placeholder = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legend fills a legend's format with a series' labels.
func legend(format string, labels map[string]string) string {
	return placeholder.ReplaceAllStringFunc(format, func(m string) string {
		return labels[placeholder.FindStringSubmatch(m)[1]]
	})
}

// svg is the whole picture.
func (p *page) svg() io.Reader {
	width, height := 24*column, (p.bottom-p.top)*unitH
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="DejaVu Sans, sans-serif">`+
		`<rect width="100%%" height="100%%" fill="#f4f5f7"/>`+"\n", width, height)
	return io.MultiReader(strings.NewReader(head), &p.body, strings.NewReader("</svg>\n"))
}
