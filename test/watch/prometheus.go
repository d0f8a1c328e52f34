package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"webhook-gateway/test/binary"
)

// errMissing says how to install Prometheus.
var errMissing = errors.New("prometheus and promtool are not installed; run: make prometheus")

// Promtool runs promtool with the arguments and the input, and returns its output.
func Promtool(ctx context.Context, input []byte, args ...string) (string, error) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		return "", errMissing
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("promtool %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// Prometheus is a private server with the rules of configs/prometheus.
type Prometheus struct {
	URL string
	cmd *exec.Cmd
	log bytes.Buffer
}

// Scrapes configures what a Prometheus scrapes, and how often it scrapes and evaluates its rules.
type Scrapes struct {
	Targets  []string // as the job gateway
	Interval time.Duration
	Rules    time.Duration
}

// StartPrometheus runs a Prometheus with the configuration of configs/prometheus under root, changed as s says. Its
// data are in dir/data, including blocks that are there already. Stop ends it.
func StartPrometheus(ctx context.Context, root, dir string, s Scrapes) (*Prometheus, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, errMissing
	}
	config, err := configure(root, s)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, fmt.Errorf("write Prometheus's configuration: %w", err)
	}
	address, err := binary.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Prometheus{URL: "http://" + address}
	p.cmd = exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := binary.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	err = until(ctx, "Prometheus is ready", func() (bool, error) {
		res, err := http.Get(p.URL + "/-/ready")
		if err != nil {
			return false, err
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // so that its log is complete
		return nil, fmt.Errorf("%w\n%s", err, &p.log)
	}
	return p, nil
}

// configure returns the shipped configuration with other targets and intervals.
func configure(root string, s Scrapes) ([]byte, error) {
	folder, err := filepath.Abs(filepath.Join(root, "configs", "prometheus"))
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(folder, "prometheus.yml"))
	if err != nil {
		return nil, err
	}
	var c struct {
		Global  map[string]string `yaml:"global"`
		Rules   []string          `yaml:"rule_files"`
		Scrapes []map[string]any  `yaml:"scrape_configs"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("read prometheus.yml: %w", err)
	}
	c.Global["scrape_interval"], c.Global["scrape_timeout"], c.Global["evaluation_interval"] = s.Interval.String(), s.Interval.String(), s.Rules.String()
	for i, name := range c.Rules {
		c.Rules[i] = filepath.Join(folder, name)
	}
	for _, scrape := range c.Scrapes {
		scrape["static_configs"] = []map[string]any{{"targets": s.Targets}}
	}
	return yaml.Marshal(c)
}

// Stop ends the server and waits for it.
func (p *Prometheus) Stop() error { return end(p.cmd, "Prometheus") }

// Sample is one series of an answer, and its value.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates an expression at an instant.
func (p *Prometheus) Query(ctx context.Context, expr string, at time.Time) ([]Sample, error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.get(ctx, "query", url.Values{"query": {expr}, "time": {seconds(at)}}, &data); err != nil {
		return nil, err
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("%s is a %s, not a vector", expr, data.ResultType)
	}
	var list []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := json.Unmarshal(data.Result, &list); err != nil {
		return nil, err
	}
	samples := make([]Sample, len(list))
	for i, s := range list {
		value, err := number(s.Value[1])
		if err != nil {
			return nil, err
		}
		samples[i] = Sample{Labels: s.Metric, Value: value}
	}
	return samples, nil
}

// LabelValues returns the values of a label among the series that match selects, or among all if match is empty.
func (p *Prometheus) LabelValues(ctx context.Context, label, match string) ([]string, error) {
	params := url.Values{}
	if match != "" {
		params.Set("match[]", match)
	}
	var values []string
	err := p.get(ctx, "label/"+label+"/values", params, &values)
	return values, err
}

// Rule is a rule as the server shows it.
type Rule struct {
	Name, Query, Health, LastError string
	LastEvaluation                 time.Time
}

// Rules returns every rule, recording and alerting.
func (p *Prometheus) Rules(ctx context.Context) ([]Rule, error) {
	var data struct {
		Groups []struct{ Rules []Rule }
	}
	if err := p.get(ctx, "rules", nil, &data); err != nil {
		return nil, err
	}
	var rules []Rule
	for _, g := range data.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules, nil
}

func (p *Prometheus) get(ctx context.Context, path string, params url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/v1/"+path+"?"+params.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer res.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read Prometheus's answer: %w", err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("Prometheus says %q to %s %s", answer.Error, path, params.Get("query"))
	}
	return nil
}

func seconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

func number(v any) (float64, error) {
	text, _ := v.(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("read a sample's value: got %v", v)
	}
	return value, nil
}
