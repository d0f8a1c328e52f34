package watch

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"webhook-gateway/configs"
)

// compose holds compose.yaml. The test refuses a field that is not listed here.
type compose struct {
	Name     string
	Services map[string]service
	Volumes  map[string]any
}

type service struct {
	Build       string
	Image       string
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	DependsOn   any `yaml:"depends_on"`
	Restart     string
	StopGrace   string   `yaml:"stop_grace_period"`
	Health      struct { // PostgreSQL's; the gateway's image has its own
		Test              []string
		Interval, Timeout time.Duration
		Retries           int
	} `yaml:"healthcheck"`
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root, path))
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	readYAML(t, "compose.yaml", &c)
	return c
}

// variable is a value that compose takes from the environment.
var variable = regexp.MustCompile(`\$\{([A-Z_]+)(:\?[^}]*)?\}`)

// settings returns the settings that compose gives to the gateway, as the binary reads them.
func settings(t *testing.T, s service) configs.Config {
	t.Helper()
	var environ []string
	for name, value := range s.Environment {
		environ = append(environ, name+"="+variable.ReplaceAllString(value, "from-the-environment"))
	}
	cfg, err := configs.Load("", environ)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Require("DATABASE_URL", "GATEWAY_SECRETS_KEY"); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

func TestComposeMounts(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	mounted := make(map[string]bool)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			parts := strings.Split(v, ":")
			if volume := parts[0]; !strings.HasPrefix(volume, ".") {
				if _, ok := c.Volumes[volume]; !ok {
					t.Errorf("%s mounts the volume %s, which is not declared", name, volume)
				}
				mounted[volume] = true
				continue
			}
			if info, err := os.Stat(filepath.Join(Root, parts[0])); err != nil || !info.IsDir() || len(parts) != 3 || parts[2] != "ro" {
				t.Errorf("%s mounts %s: %v; want a folder that is there, read-only", name, v, err)
			}
		}
		if s.Build != "" {
			if _, err := os.Stat(filepath.Join(Root, s.Build, "Dockerfile")); err != nil {
				t.Errorf("%s is built from nothing: %v", name, err)
			}
		}
		if image := s.Image; s.Build == "" && !regexp.MustCompile(`:v?[0-9]`).MatchString(image) {
			t.Errorf("%s runs %q, which names no version", name, image)
		}
	}
	for volume := range c.Volumes {
		if !mounted[volume] {
			t.Errorf("the volume %s is mounted nowhere", volume)
		}
	}
}

func TestComposeGateway(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	gateway, migrate, postgres := c.Services["gateway"], c.Services["migrate"], c.Services["postgres"]
	if !slices.Equal(gateway.Command, []string{"serve"}) || !slices.Equal(migrate.Command, []string{"migrate", "up"}) || gateway.Image != migrate.Image {
		t.Errorf("the gateway runs %v and %v, of %s and %s", migrate.Command, gateway.Command, migrate.Image, gateway.Image)
	}
	known := []string{"PGPASSWORD"} // PostgreSQL's own
	for _, s := range configs.Settings() {
		known = append(known, s.Name)
	}
	for name := range gateway.Environment {
		if !slices.Contains(known, name) {
			t.Errorf("the gateway has no setting %s", name)
		}
	}
	cfg := settings(t, gateway)
	if want := []string{port(cfg.Listen) + ":" + port(cfg.Listen)}; !slices.Equal(gateway.Ports, want) {
		t.Errorf("the gateway publishes %v, want %v: where vendors call, and nothing else", gateway.Ports, want)
	}
	database := "postgres://" + postgres.Environment["POSTGRES_USER"] + "@postgres:5432/" + postgres.Environment["POSTGRES_DB"]
	if url := cfg.DatabaseURL.Reveal(); !strings.HasPrefix(url, database+"?") {
		t.Errorf("the gateway's database is %s, and compose makes %s", url, database)
	}
	if gateway.Environment["PGPASSWORD"] != postgres.Environment["POSTGRES_PASSWORD"] {
		t.Error("the gateway has another password than PostgreSQL")
	}
	for _, s := range []service{gateway, migrate, postgres} {
		for name, value := range s.Environment {
			if secret := strings.Contains(name, "KEY") || strings.Contains(name, "PASSWORD"); secret && !strings.HasPrefix(value, "${"+variableName(value)+":?") {
				t.Errorf("%s is %q: a secret comes from the environment, and nothing starts without it", name, value)
			}
		}
	}
	grace, err := time.ParseDuration(gateway.StopGrace)
	if err != nil || grace <= cfg.ShutdownDelay+cfg.ShutdownTimeout {
		t.Errorf("the gateway is killed %s after it is asked to stop (%v), and may take %s", gateway.StopGrace, err, cfg.ShutdownDelay+cfg.ShutdownTimeout)
	}
	if state := "gateway:" + "/var/lib/gateway"; !slices.Contains(gateway.Volumes, state) || !strings.Contains(dockerfile(t), "GATEWAY_STATE_DIR=/var/lib/gateway") {
		t.Errorf("the gateway's state is in no volume: %v", gateway.Volumes)
	}
}

func variableName(value string) string {
	if m := variable.FindStringSubmatch(value); m != nil {
		return m[1]
	}
	return ""
}

func dockerfile(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// mountedAt returns the path of our folder in the container.
func (s service) mountedAt(folder string) string {
	for _, v := range s.Volumes {
		if parts := strings.Split(v, ":"); filepath.Clean(parts[0]) == folder {
			return parts[1]
		}
	}
	return ""
}

func TestComposePrometheus(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	server := c.Services["prometheus"]
	var p struct {
		Global struct {
			Scrape     string `yaml:"scrape_interval"`
			Evaluation string `yaml:"evaluation_interval"`
		}
		Rules   []string `yaml:"rule_files"`
		Scrapes []struct {
			Job     string                       `yaml:"job_name"`
			Statics []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "configs/prometheus/prometheus.yml", &p)
	want := "gateway:" + port(settings(t, c.Services["gateway"]).AdminListen)
	if len(p.Scrapes) != 1 || p.Scrapes[0].Job != "gateway" || !slices.Equal(p.Scrapes[0].Statics[0].Targets, []string{want}) {
		t.Errorf("Prometheus scrapes %+v, want the job gateway at %s", p.Scrapes, want)
	}
	var rules []string
	for _, file := range files(t, "*rules*.yml") {
		rules = append(rules, filepath.Base(file))
	}
	slices.Sort(p.Rules)
	if !slices.Equal(p.Rules, rules) {
		t.Errorf("Prometheus has the rules %v, and there are %v", p.Rules, rules)
	}
	if at := "--config.file=" + server.mountedAt("configs/prometheus") + "/prometheus.yml"; !slices.Contains(server.Command, at) {
		t.Errorf("Prometheus runs %v, want %s", server.Command, at)
	}
	keeps := slices.IndexFunc(server.Command, func(arg string) bool { return strings.HasPrefix(arg, "--storage.tsdb.retention.time=") })
	if keeps < 0 || server.Command[keeps] != "--storage.tsdb.retention.time=30d" {
		t.Errorf("Prometheus runs %v: it must keep more than a week", server.Command)
	}
	if !slices.Equal(server.Ports, []string{"127.0.0.1:9090:9090"}) {
		t.Errorf("Prometheus publishes %v, want this machine alone", server.Ports)
	}
}

func TestComposeGrafana(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	server := c.Services["grafana"]
	var sources struct {
		Version     int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			Default                      bool `yaml:"isDefault"`
			Editable                     bool
			JSON                         struct {
				Method   string `yaml:"httpMethod"`
				Interval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		}
	}
	readYAML(t, "configs/grafana/provisioning/datasources/prometheus.yaml", &sources)
	var prometheus struct {
		Global map[string]string
		Rules  []string `yaml:"rule_files"`
		Rest   any      `yaml:"scrape_configs"`
	}
	readYAML(t, "configs/prometheus/prometheus.yml", &prometheus)
	source := sources.Datasources[0]
	if source.URL != "http://prometheus:9090" || source.Type != "prometheus" || !source.Default || source.JSON.Interval != prometheus.Global["scrape_interval"] {
		t.Errorf("the data source is %+v, and Prometheus scrapes every %s", source, prometheus.Global["scrape_interval"])
	}
	if v := dashboard(t).Templating.List[0]; v.Current.Value != source.UID {
		t.Errorf("the dashboard begins with the data source %v, and it is called %s", v.Current.Value, source.UID)
	}

	var folders struct {
		Version   int `yaml:"apiVersion"`
		Providers []struct {
			Name, Type, Folder string
			NoDeletion         bool `yaml:"disableDeletion"`
			Updates            bool `yaml:"allowUiUpdates"`
			Options            struct{ Path string }
		}
	}
	readYAML(t, "configs/grafana/provisioning/dashboards/gateway.yaml", &folders)
	at := server.mountedAt("configs/grafana/dashboards")
	if p := folders.Providers[0]; p.Type != "file" || p.Updates || p.Options.Path != at || at == "" {
		t.Errorf("the dashboards are provisioned by %+v and mounted at %q", p, at)
	}
	if home := server.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home != at+"/gateway.json" {
		t.Errorf("Grafana begins with %s", home)
	}
	if p := server.Environment["GF_PATHS_PROVISIONING"]; p == "" || p != server.mountedAt("configs/grafana/provisioning") {
		t.Errorf("Grafana is provisioned from %q, and that is mounted at %q", p, server.mountedAt("configs/grafana/provisioning"))
	}
	if !slices.Equal(server.Ports, []string{"127.0.0.1:3000:3000"}) {
		t.Errorf("Grafana publishes %v, want this machine alone: anybody may look", server.Ports)
	}
}
