// Package configs reads the gateway's settings from the environment and an optional YAML file; the environment wins. It
// reports every problem at once, by the setting's name.
package configs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Config holds the value of every setting. Other packages receive single values, never the whole Config.
type Config struct {
	DatabaseURL Secret `env:"DATABASE_URL"`
	SecretsKey  Secret `env:"GATEWAY_SECRETS_KEY"`
	StateDir    string `env:"GATEWAY_STATE_DIR"`

	Listen          string     `env:"GATEWAY_LISTEN"`
	AdminListen     string     `env:"GATEWAY_ADMIN_LISTEN"`
	AdminOpen       bool       `env:"GATEWAY_ADMIN_OPEN"`
	Pprof           bool       `env:"GATEWAY_PPROF"`
	WaitForPostgres bool       `env:"GATEWAY_WAIT_FOR_POSTGRES"`
	AcceptFsyncOff  bool       `env:"GATEWAY_ACCEPT_FSYNC_OFF"`
	LogLevel        slog.Level `env:"GATEWAY_LOG_LEVEL"`

	TrustedProxies Networks `env:"GATEWAY_TRUSTED_PROXIES"`

	MaxConnections   int           `env:"GATEWAY_MAX_CONNECTIONS"`
	MaxBodyBytes     int64         `env:"GATEWAY_MAX_BODY_BYTES"`
	MaxInflatedBytes int64         `env:"GATEWAY_MAX_INFLATED_BYTES"`
	BodyBudgetBytes  int64         `env:"GATEWAY_BODY_BUDGET_BYTES"`
	ReadTimeout      time.Duration `env:"GATEWAY_READ_TIMEOUT"`
	SettleTimeout    time.Duration `env:"GATEWAY_SETTLE_TIMEOUT"`

	QueueDeliveries int   `env:"GATEWAY_QUEUE_DELIVERIES"`
	QueueBytes      int64 `env:"GATEWAY_QUEUE_BYTES"`
	BatchDeliveries int   `env:"GATEWAY_BATCH_DELIVERIES"`
	BatchBytes      int64 `env:"GATEWAY_BATCH_BYTES"`
	Committers      int   `env:"GATEWAY_COMMITTERS"`

	InboxRetention time.Duration `env:"GATEWAY_INBOX_RETENTION"`
	DropsRetention time.Duration `env:"GATEWAY_DROPS_RETENTION"`
	SweepInterval  time.Duration `env:"GATEWAY_SWEEP_INTERVAL"`

	ShutdownDelay   time.Duration `env:"GATEWAY_SHUTDOWN_DELAY"`
	ShutdownTimeout time.Duration `env:"GATEWAY_SHUTDOWN_TIMEOUT"`

	CaptureDir   string `env:"GATEWAY_CAPTURE_DIR"`
	CaptureFiles int    `env:"GATEWAY_CAPTURE_FILES"`
	CaptureBytes int64  `env:"GATEWAY_CAPTURE_BYTES"`
	RejectedDir  string `env:"GATEWAY_REJECTED_DIR"`
}

// Load reads the settings from the environment, in the form of os.Environ, and from a YAML file: the argument file if
// set, else the one in GATEWAY_CONFIG, else none. The environment wins. A setting with an empty value counts as not
// set. The error joins all problems, one per line. No setting is required; see Require.
func Load(file string, environ []string) (Config, error) {
	var p problems
	texts := defaults(env.ToMap(environ))
	given := fromEnvironment(environ, &p)
	if file == "" {
		file = given[fileSetting]
	}
	if file != "" {
		for name, text := range fromFile(file, &p) {
			if text != "" {
				texts[name] = text
			}
		}
	}
	for name, text := range given {
		texts[name] = text
	}

	var c Config
	bad := c.parse(texts, &p)
	for _, s := range table() {
		if s.check != nil && !bad[s.Name] {
			p.add(s.Name, s.check(&c))
		}
	}
	if len(bad) == 0 {
		c.checkTogether(&p)
	}
	return c, p.err()
}

// parse converts the settings' texts to values, and returns the names of those that could not be read.
func (c *Config) parse(texts map[string]string, p *problems) (bad map[string]bool) {
	bad = make(map[string]bool)
	err := env.ParseWithOptions(c, env.Options{
		Environment: texts,
		FuncMap:     map[reflect.Type]env.ParserFunc{reflect.TypeFor[int64](): func(text string) (any, error) { return parseBytes(text) }},
	})
	var all env.AggregateError
	if !errors.As(err, &all) {
		if err != nil {
			p.list = append(p.list, fmt.Errorf("read settings: %w", err))
		}
		return bad
	}
	for _, err := range all.Errors {
		var one env.ParseError
		if !errors.As(err, &one) {
			p.list = append(p.list, err)
			continue
		}
		field, _ := reflect.TypeFor[Config]().FieldByName(one.Name)
		name := field.Tag.Get("env")
		bad[name] = true
		p.add(name, fmt.Errorf("%.100q cannot be read; write %s", texts[name], wanted(field.Type)))
	}
	return bad
}

// wanted says how to write a value of the type.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration like 500ms, 10s, 2m or 720h"
	case reflect.TypeFor[int64]():
		return "a size like 65536, 64KiB or 4MiB"
	case reflect.TypeFor[int]():
		return "a whole number"
	case reflect.TypeFor[bool]():
		return "true or false"
	case reflect.TypeFor[Networks]():
		return "addresses or networks separated by commas, like 10.0.0.0/8, 192.0.2.7"
	case reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
	default:
		return "text"
	}
}

// Require returns an error that names each of these settings that is not set, and what to do.
func (c Config) Require(names ...string) error {
	var p problems
	for _, s := range table() {
		for _, name := range names {
			if s.Name == name && c.text(name) == "" {
				p.add(name, fmt.Errorf("is not set; %s", s.missing))
			}
		}
	}
	return p.err()
}

// text returns a setting's value as text. It reveals secrets.
func (c Config) text(name string) string {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("env") != name {
			continue
		}
		switch value := v.Field(i).Interface().(type) {
		case Secret:
			return value.Reveal()
		case int64:
			return formatBytes(value)
		case slog.Level:
			return strings.ToLower(value.String())
		default:
			return fmt.Sprint(value)
		}
	}
	return ""
}

// Value is one setting and its value.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Redacted lists every setting with the value in force, in the order of Settings, for people to read. For a secret it
// only says whether it is set; for a DATABASE_URL that is a URL, also the host and database.
func (c Config) Redacted() []Value {
	var list []Value
	for _, s := range table() {
		if s.Name == fileSetting {
			continue
		}
		text := c.text(s.Name)
		switch {
		case text == "":
			text = "(not set)"
		case s.Name == "DATABASE_URL":
			text = hostOf(text)
		case s.Secret:
			text = redacted
		}
		list = append(list, Value{Name: s.Name, Value: text})
	}
	return list
}

// problems collects errors.
type problems struct{ list []error }

func (p *problems) add(name string, err error) {
	if err != nil {
		p.list = append(p.list, fmt.Errorf("%s: %w", name, err))
	}
}

func (p *problems) err() error { return errors.Join(p.list...) }

// defaults returns the texts of settings that are not set.
func defaults(environ map[string]string) map[string]string {
	texts := make(map[string]string)
	for _, s := range table() {
		texts[s.Name] = s.Default
	}
	texts["GATEWAY_STATE_DIR"] = stateDir(environ, os.Geteuid())
	return texts
}

// stateDir returns the default folder for the state of a user's gateway.
func stateDir(environ map[string]string, user int) string {
	const ofMachine = "/var/lib/gateway"
	if dir := environ["XDG_STATE_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "gateway")
	}
	if home := environ["HOME"]; user != 0 && filepath.IsAbs(home) && filepath.Clean(home) != "/" {
		return filepath.Join(home, ".local", "state", "gateway")
	}
	return ofMachine
}
