package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/test/watch"
)

// graph is a panel of lines or bars, and where its plot lies.
type graph struct {
	box
	panel    watch.Panel
	lines    []line
	from, to time.Time
	legend   box

	low, high float64
	log       bool
}

func (p *page) graph(g graph) {
	custom := g.panel.FieldConfig.Defaults.Custom
	g.log = custom.ScaleDistribution.Type == "log"
	stacked := custom.Stacking.Mode == "normal"
	if stacked {
		g.lines = stack(g.lines)
	}
	g.fit()
	p.axes(&g)
	if stacked {
		for i := len(g.lines) - 1; i >= 0; i-- { // the highest first, the lower ones over it
			p.area(&g, g.lines[i], g.color(i))
		}
	} else {
		for i, l := range g.lines {
			p.curve(&g, l, g.color(i), strings.HasSuffix(l.name, "limit"))
		}
	}
	x, y := g.legend.x, g.legend.y
	for i, l := range g.lines {
		wide := 26 + 6.6*float64(len(l.name))
		if x+wide > g.legend.x+g.legend.w {
			if y > g.legend.y { // two lines are enough
				p.text(x, y, style{11, "start", gray}, "…")
				break
			}
			x, y = g.legend.x, y+g.legend.h
		}
		fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="12" height="4" fill="%s"/>`+"\n", x, y-6, g.color(i))
		p.text(x+16, y, style{11, "start", dark}, l.name)
		x += wide
	}
}

// stack adds each line to those before it.
func stack(lines []line) []line {
	sums := make(map[int64]float64)
	out := make([]line, len(lines))
	for i, l := range lines {
		out[i].name = l.name
		for _, point := range l.points {
			sums[point.At.UnixMilli()] += point.Value
			out[i].points = append(out[i].points, watch.Point{At: point.At, Value: sums[point.At.UnixMilli()]})
		}
	}
	return out
}

// fit chooses what the vertical axis spans.
func (g *graph) fit() {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range g.lines {
		for _, point := range l.points {
			if v := point.Value; !math.IsNaN(v) && !math.IsInf(v, 0) && (!g.log || v > 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	switch d := g.panel.FieldConfig.Defaults; {
	case g.log && high > 0:
		g.low, g.high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	case high <= 0 || math.IsInf(high, 0):
		g.low, g.high = 0, 1
	default:
		g.low, g.high = 0, high*1.08
		if d.Max != nil {
			g.high = *d.Max
		}
	}
}

func (g *graph) at(point watch.Point) (x, y float64) {
	x = g.x + g.w*float64(point.At.Sub(g.from))/float64(g.to.Sub(g.from))
	share := (point.Value - g.low) / (g.high - g.low)
	if g.log {
		share = (math.Log10(max(point.Value, g.low)) - math.Log10(g.low)) / (math.Log10(g.high) - math.Log10(g.low))
	}
	return x, g.y + g.h*(1-min(max(share, 0), 1))
}

func (p *page) axes(g *graph) {
	for _, value := range g.ticks() {
		_, y := g.at(watch.Point{At: g.from, Value: value})
		fmt.Fprintf(&p.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#eceef1"/>`+"\n", g.x, y, g.x+g.w, y)
		p.text(g.x-6, y+4, style{10, "end", gray}, format(g.panel.FieldConfig.Defaults.Unit, value))
	}
	step := g.to.Sub(g.from) / 4
	for at := g.from.Add(step / 2); at.Before(g.to); at = at.Add(step) {
		x, _ := g.at(watch.Point{At: at, Value: g.low})
		p.text(x, g.y+g.h+14, style{10, "middle", gray}, at.Format("15:04:05"))
	}
}

// ticks are the round values on the vertical axis.
func (g *graph) ticks() (values []float64) {
	if g.log {
		for v := g.low; v <= g.high*1.001; v *= 10 {
			values = append(values, v)
		}
		return values
	}
	step := math.Pow(10, math.Floor(math.Log10(g.high/2)))
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if g.high/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	for v := 0.0; v <= g.high*1.001; v += step {
		values = append(values, v)
	}
	return values
}

// curve draws a line, with a hole where there is no value.
func (p *page) curve(g *graph, l line, color string, dashed bool) {
	var path strings.Builder
	drawing := false
	for _, point := range l.points {
		if math.IsNaN(point.Value) || math.IsInf(point.Value, 0) {
			drawing = false
			continue
		}
		x, y := g.at(point)
		move := "L"
		if !drawing {
			move = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", move, x, y)
		drawing = true
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="8 6"`
	}
	fmt.Fprintf(&p.body, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"%s/>`+"\n", path.String(), color, dash)
}

// area fills what lies under a line.
func (p *page) area(g *graph, l line, color string) {
	if len(l.points) == 0 {
		return
	}
	var path strings.Builder
	x, bottom := g.at(watch.Point{At: l.points[0].At, Value: g.low})
	fmt.Fprintf(&path, "M%.1f %.1f", x, bottom)
	for _, point := range l.points {
		var y float64
		x, y = g.at(point)
		fmt.Fprintf(&path, "L%.1f %.1f", x, y)
	}
	fmt.Fprintf(&path, "L%.1f %.1fZ", x, bottom)
	fmt.Fprintf(&p.body, `<path d="%s" fill="%s" stroke="#ffffff" stroke-width="0.4"/>`+"\n", path.String(), color)
}

// color is a line's: the one that an override fixes, or the next of a palette.
func (g *graph) color(i int) string {
	for _, o := range g.panel.FieldConfig.Overrides {
		name := o.Matcher.Options
		if o.Matcher.ID == "byRegexp" {
			if re, err := regexp.Compile(strings.Trim(name, "/")); err != nil || !re.MatchString(g.lines[i].name) {
				continue
			}
		} else if name != g.lines[i].name {
			continue
		}
		for _, property := range o.Properties {
			if value, ok := property.Value.(map[string]any); ok && property.ID == "color" {
				return named(fmt.Sprint(value["fixedColor"]))
			}
		}
	}
	palette := []string{"#3f9c4b", "#e0b400", "#3b74c7", "#e8832a", "#d6323b", "#2aa6a6", "#8f4bb8", "#8a6d3b", "#6e7580"}
	return palette[i%len(palette)]
}

// format writes a value in its unit.
func format(unit string, v float64) string {
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch unit {
	case "cps":
		return short(v) + " c/s"
	case "percentunit":
		return short(100*v) + "%"
	case "bytes":
		return strconv.FormatFloat(v/(1<<20), 'f', 0, 64) + " MiB"
	case "d":
		return strconv.FormatFloat(v, 'f', 1, 64) + " days"
	case "s":
		switch {
		case v != 0 && v < 0.001:
			return short(v*1e6) + " µs"
		case v != 0 && v < 1:
			return short(v*1e3) + " ms"
		}
		return short(v) + " s"
	}
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return short(v)
}
