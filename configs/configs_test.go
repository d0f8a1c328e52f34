package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func revealed() cmp.Option {
	return cmp.Transformer("reveal", func(s Secret) string { return s.Reveal() })
}

// plain is a Config with nothing set.
func plain() Config {
	return Config{
		StateDir: "/var/lib/gateway", Listen: ":8080", AdminListen: "127.0.0.1:8081", WaitForPostgres: true, LogLevel: slog.LevelInfo,
		MaxConnections: 10_000, MaxBodyBytes: 4 << 20, MaxInflatedBytes: 16 << 20, BodyBudgetBytes: 256 << 20,
		ReadTimeout: 10 * time.Second, SettleTimeout: 2500 * time.Millisecond,
		QueueDeliveries: 20000, QueueBytes: 128 << 20, BatchDeliveries: 256, BatchBytes: 8 << 20, Committers: 2,
		InboxRetention: 720 * time.Hour, DropsRetention: 336 * time.Hour, SweepInterval: time.Minute,
		ShutdownTimeout: 25 * time.Second,
		CaptureFiles:    1000, CaptureBytes: 64 << 20,
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := Load("", []string{"XDG_STATE_HOME=/var/lib", "PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(), got, revealed()); diff != "" {
		t.Fatal(diff)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "listen: :1\nadmin_listen: '[::1]:2'\nqueue_bytes: 1GiB\nlog_level: DEBUG\npprof: true\nstate_dir: \"\"\n")
	want := plain()
	want.Listen, want.AdminListen, want.QueueBytes, want.LogLevel, want.Pprof = ":3", "[::1]:2", 1<<30, slog.LevelDebug, true
	want.SecretsKey = NewSecret("k=,v")
	environ := []string{"XDG_STATE_HOME=/var/lib", "GATEWAY_LISTEN=:3", "GATEWAY_LOG_LEVEL=", "GATEWAY_SECRETS_KEY=k=,v"}

	for name, load := range map[string]func() (Config, error){
		"named by the flag":        func() (Config, error) { return Load(file, environ) },
		"named by the environment": func() (Config, error) { return Load("", append(environ, "GATEWAY_CONFIG="+file)) },
		"the flag wins":            func() (Config, error) { return Load(file, append(environ, "GATEWAY_CONFIG=/nowhere")) },
	} {
		got, err := load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, revealed()); diff != "" {
			t.Fatalf("%s: %s", name, diff)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "listn: :1\nqueue_bytes: lots\n\nlisten: [1]\nsweep_interval:\ncommitters: 0\ncommitters: 1\npprof: true\n")
	_, err := Load(file, []string{
		"HOME=/home/u", "GATEWAY_READ_TIMEOUT=10", "GATEWAY_LISTN=:1", "GATEWAY_PPROF=maybe", "GATEWAY_BATCH_DELIVERIES=0",
		"GATEWAY_ADMIN_LISTEN=8081", "GATEWAY_STATE_DIR=state", "GATEWAY_INBOX_RETENTION=25h", "GATEWAY_LOG_LEVEL=loud",
		"DATABASE_URL=mysql://me:hush@host/db",
	})
	if err == nil {
		t.Fatal("got no error")
	}
	want := []string{
		"GATEWAY_LISTN: unknown setting; check the spelling, or unset it",
		file + ` line 1: unknown key "listn"`,
		file + ` line 4: listen takes one value`,
		file + ` line 5: sweep_interval has no value; set one, or remove the line`,
		file + ` line 7: duplicate key "committers"`,
		`GATEWAY_PPROF: "maybe" cannot be read; write true or false`,
		`GATEWAY_LOG_LEVEL: "loud" cannot be read; write debug, info, warn or error`,
		`GATEWAY_READ_TIMEOUT: "10" cannot be read; write a duration like 500ms, 10s, 2m or 720h`,
		`GATEWAY_QUEUE_BYTES: "lots" cannot be read; write a size like 65536, 64KiB or 4MiB`,
		`DATABASE_URL: is not a PostgreSQL connection string; write postgres://user:password@host:5432/database`,
		`GATEWAY_STATE_DIR: "state" is a relative path; write an absolute one`,
		`GATEWAY_ADMIN_LISTEN: "8081" is not a listen address; write host:port or :port, like 127.0.0.1:8081`,
		`GATEWAY_BATCH_DELIVERIES: 0 is out of bounds; choose 1 to 10000`,
		`GATEWAY_COMMITTERS: 0 is out of bounds; choose 1 to 64`,
		`GATEWAY_INBOX_RETENTION: 25h0m0s is not a whole number of days; the inbox is dropped by the day, write 24h, 48h or 720h`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Fatal(diff)
	}
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ environ, want string }{
		{"GATEWAY_BODY_BUDGET_BYTES=2MiB", "GATEWAY_BODY_BUDGET_BYTES: 2MiB is less than GATEWAY_MAX_BODY_BYTES (4MiB)"},
		{"GATEWAY_QUEUE_BYTES=2MiB", "GATEWAY_QUEUE_BYTES: 2MiB is less than GATEWAY_MAX_BODY_BYTES (4MiB)"},
		{"GATEWAY_SHUTDOWN_TIMEOUT=2s", "GATEWAY_SHUTDOWN_TIMEOUT: 2s is not longer than GATEWAY_SETTLE_TIMEOUT (2.5s)"},
		{"GATEWAY_ADMIN_LISTEN=:9", "GATEWAY_ADMIN_OPEN: GATEWAY_ADMIN_LISTEN (:9) is not on loopback, and the admin listener has no authentication"},
		{"GATEWAY_ADMIN_LISTEN=10.0.0.1:9", "GATEWAY_ADMIN_OPEN: GATEWAY_ADMIN_LISTEN (10.0.0.1:9) is not on loopback"},
		{"GATEWAY_ADMIN_LISTEN=[::]:9", "GATEWAY_ADMIN_OPEN: "},
		{"GATEWAY_ADMIN_LISTEN=127.0.0.1.example.com:9", "GATEWAY_ADMIN_OPEN: "},
		{"GATEWAY_ADMIN_LISTEN=:9 GATEWAY_ADMIN_OPEN=true", ""},
		{"GATEWAY_ADMIN_LISTEN=[::1]:9", ""},
		{"GATEWAY_PPROF=true GATEWAY_ADMIN_OPEN=true GATEWAY_ADMIN_LISTEN=:9", "GATEWAY_PPROF: profiles show memory content"},
		{"GATEWAY_PPROF=true GATEWAY_ADMIN_OPEN=true GATEWAY_ADMIN_LISTEN=10.0.0.1:9", "GATEWAY_PPROF: profiles show memory content"},
		{"GATEWAY_LISTEN=127.0.0.1:8081", "GATEWAY_ADMIN_LISTEN: 127.0.0.1:8081 is also GATEWAY_LISTEN"},
		{"GATEWAY_PPROF=true GATEWAY_ADMIN_LISTEN=localhost:9", ""},
		{"GATEWAY_PPROF=true", ""},
		{"GATEWAY_LISTEN=127.0.0.1:0 GATEWAY_ADMIN_LISTEN=127.0.0.1:0", ""},
	} {
		_, err := Load("", append(strings.Fields(c.environ), "HOME=/home/u"))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.environ, err, c.want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, low, least, most, high string }{
		{"GATEWAY_MAX_BODY_BYTES", "65535", "64KiB", "64MiB", "65MiB"},
		{"GATEWAY_MAX_INFLATED_BYTES", "65535", "64KiB", "256MiB", "1GiB"},
		{"GATEWAY_BODY_BUDGET_BYTES", "1KiB", "4MiB", "64GiB", "65GiB"},
		{"GATEWAY_QUEUE_BYTES", "1KiB", "4MiB", "64GiB", "65GiB"},
		{"GATEWAY_QUEUE_DELIVERIES", "999", "1000", "1000000", "1000001"},
		{"GATEWAY_BATCH_DELIVERIES", "0", "1", "10000", "10001"},
		{"GATEWAY_BATCH_BYTES", "1", "64KiB", "256MiB", "257MiB"},
		{"GATEWAY_COMMITTERS", "-1", "1", "64", "65"},
		{"GATEWAY_READ_TIMEOUT", "0s", "100ms", "5m", "6m"},
		{"GATEWAY_SETTLE_TIMEOUT", "0s", "100ms", "24s", "2m"},
		{"GATEWAY_INBOX_RETENTION", "0h", "24h", "87600h", "87624h"},
		{"GATEWAY_DROPS_RETENTION", "1m", "1h", "87600h", "87601h"},
		{"GATEWAY_SWEEP_INTERVAL", "0s", "1s", "1h", "61m"},
		{"GATEWAY_SHUTDOWN_DELAY", "-1s", "0s", "5m", "6m"},
		{"GATEWAY_SHUTDOWN_TIMEOUT", "0s", "3s", "10m", "11m"},
		{"GATEWAY_LISTEN", "80", "x:0", "[::]:65535", ":65536"},
		{"GATEWAY_ADMIN_LISTEN", "80", "127.0.0.1:0", "localhost:1", "127.0.0.1:http"},
	} {
		for text, ok := range map[string]bool{c.low: false, c.least: true, c.most: true, c.high: false} {
			_, err := Load("", []string{"HOME=/home/u", c.name + "=" + text})
			if ok != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), c.name+": ") {
				t.Errorf("%s=%s: got %v", c.name, text, err)
			}
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"GATEWAY_LISTEN_": false, "GATEWAY_NOW": false, "GATEWAY_CLOCK": false,
		"GATEWAY": true, "MY_GATEWAY_LISTEN": true, "GATEWAY_PG_BIN": true,
		"GATEWAY_SERVICE_HOST": true, "GATEWAY_SERVICE_PORT": true, "GATEWAY_SERVICE_PORT_HTTP": true, "GATEWAY_PORT": true,
		"GATEWAY_PORT_8080_TCP": true, "GATEWAY_PORT_8080_TCP_ADDR": true, "GATEWAY_ADMIN_SERVICE_HOST": true,
	} {
		if _, err := Load("", []string{"HOME=/home/u", name + "=tcp://10.0.0.1:80"}); ok != (err == nil) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"- a\n":                        "line 1: write settings as key: value",
		"just text":                    "line 1: write settings as key: value",
		"listen: :1\n\t bad":           "read ",
		"listen: :1\n---\nlisten: :2":  "more than one document",
		"gateway_listen: :1":           `unknown key "gateway_listen"`,
		"config: /etc/x":               `unknown key "config"`,
		"limits:\n  max_body_bytes: 1": `unknown key "limits"`,
		"Listen: :1":                   `unknown key "Listen"`,
		"a: &x :1\nlisten: *x":         `unknown key "a"`,
		"":                             "", "# nothing\n": "", "---\n": "", "{}": "",
	} {
		_, err := Load(writeFile(t, content), []string{"HOME=/home/u"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", content, err, want)
		}
	}
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), []string{"HOME=/home/u"})
	if err == nil || !strings.HasPrefix(err.Error(), "GATEWAY_CONFIG: read the settings' file: ") {
		t.Errorf("a file that is not there: got %v", err)
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	c := plain()
	want := "DATABASE_URL: is not set; write the address of a PostgreSQL database, like postgres://user:password@host:5432/gateway\n" +
		"GATEWAY_SECRETS_KEY: is not set; make one with: openssl rand -base64 32"
	if err := c.Require("GATEWAY_SECRETS_KEY", "DATABASE_URL"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	c.DatabaseURL = NewSecret("postgres://h/d")
	if err := c.Require("DATABASE_URL"); err != nil {
		t.Error(err)
	}
}

func TestSecretsHidden(t *testing.T) {
	t.Parallel()
	for _, database := range []string{
		"postgres://me:hush@host:5432/db?password=hush&sslmode=disable", "host=h password=hush", "postgres://me:hush%@host/db",
		"postgres:hush=", "hush@host",
	} {
		c, err := Load("", []string{"HOME=/home/u", "DATABASE_URL=" + database, "GATEWAY_SECRETS_KEY=hush"})
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&out, verb+"\n", c)
			fmt.Fprintf(&out, verb+"\n", &c)
			fmt.Fprintf(&out, verb+"\n", struct{ hidden Config }{c})
			fmt.Fprintf(&out, verb+"\n", c.Redacted())
			fmt.Fprintf(&out, verb+"\n", c.SecretsKey)
		}
		_ = json.NewEncoder(&out).Encode(c)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "config", c, "err", err)
		if bytes.Contains(out.Bytes(), []byte("hush")) || bytes.Contains(out.Bytes(), []byte("68757368")) {
			t.Fatalf("%s shows:\n%s", database, out.String())
		}
	}
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	c := plain()
	c.DatabaseURL = NewSecret("postgres://me:hush@host:5432/db?sslmode=disable")
	got := make(map[string]string)
	for _, v := range c.Redacted() {
		got[v.Name] = v.Value
	}
	if len(got) != len(Settings())-1 {
		t.Errorf("%d settings are listed of %d", len(got), len(Settings())-1)
	}
	for name, want := range map[string]string{
		"DATABASE_URL":           "postgres://host:5432/db (user, password and parameters not shown)",
		"GATEWAY_SECRETS_KEY":    "(not set)",
		"GATEWAY_MAX_BODY_BYTES": "4MiB", "GATEWAY_LOG_LEVEL": "info", "GATEWAY_PPROF": "false", "GATEWAY_SETTLE_TIMEOUT": "2.5s",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

func TestStateDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		xdg, home string
		user      int
		want      string
	}{
		{"", "/root", 0, "/var/lib/gateway"},
		{"", "/home/u", 1000, "/home/u/.local/state/gateway"},
		{"/x", "/home/u", 1000, "/x/gateway"},
		{"x", "/home/u", 1000, "/home/u/.local/state/gateway"},
		{"", "", 1000, "/var/lib/gateway"},
		{"", "/", 65532, "/var/lib/gateway"},
	} {
		if got := stateDir(map[string]string{"XDG_STATE_HOME": c.xdg, "HOME": c.home}, c.user); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestEverySettingHasField(t *testing.T) {
	t.Parallel()
	fields := map[string]bool{fileSetting: true}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		fields[f.Tag.Get("env")] = true
	}
	names, keys := make(map[string]bool), make(map[string]bool)
	for _, s := range table() {
		if s.Help == "" || names[s.Name] || s.YAML != "" && keys[s.YAML] || s.Secret && s.missing == "" {
			t.Errorf("%+v is not well described", s.Setting)
		}
		names[s.Name], keys[s.YAML] = true, true
	}
	if diff := cmp.Diff(fields, names); diff != "" {
		t.Fatal(diff)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 1, "10B": 10, "64KiB": 65536, "4 MiB": 4 << 20, "3GiB": 3 << 30, " 7 ": 7} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q: got %d and %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "4MB", "4M", "MiB", "9223372036854775807KiB", "0x10", "1_000"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
	for _, n := range []int64{0, 1, 1023, 1024, 1025, 4 << 20, 3 << 30, 1<<30 + 1024} {
		if got, err := parseBytes(formatBytes(n)); err != nil || got != n {
			t.Errorf("%d is written %s and read %d", n, formatBytes(n), got)
		}
	}
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "10.0.0.0/8": "10.0.0.0/8", " 10.1.2.3/8,192.0.2.7 ,": "10.0.0.0/8, 192.0.2.7/32", "2001:db8::1": "2001:db8::1/128", "fd00::/8": "fd00::/8",
	} {
		c, err := Load("", []string{"GATEWAY_TRUSTED_PROXIES=" + text})
		if err != nil || c.TrustedProxies.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, c.TrustedProxies, err, want)
		}
	}
	for _, text := range []string{"proxy", "10.0.0.0/33", "10.0.0.0/8 192.0.2.7", "fe80::1%eth0", "0.0.0.0/8/8"} {
		if _, err := Load("", []string{"GATEWAY_TRUSTED_PROXIES=" + text}); err == nil || !strings.Contains(err.Error(), "GATEWAY_TRUSTED_PROXIES") {
			t.Errorf("%q: %v, want it refused by name", text, err)
		}
	}
}
