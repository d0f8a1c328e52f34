package configs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/internal/dsn"
)

// fileSetting names the file. The file itself cannot contain it.
const fileSetting = "GATEWAY_CONFIG"

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
	day = 24 * time.Hour
)

// Setting describes one setting, for documentation and for checks.
type Setting struct {
	Name    string // of the environment variable
	YAML    string // key in the file; empty: only in the environment
	Default string // as written in the environment; empty: none
	Help    string // one sentence or two
	Secret  bool   // never printed
}

type setting struct {
	Setting
	missing string              // what to do if a command needs the setting and it is not set
	check   func(*Config) error // nil: any value of its type
}

// Settings lists every setting, in the order of the documentation.
func Settings() []Setting {
	var list []Setting
	for _, s := range table() {
		list = append(list, s.Setting)
	}
	return list
}

// table describes all settings. Each setting is a row here and a field of Config.
func table() []setting {
	list := []setting{
		{Setting: Setting{Name: fileSetting, Help: "YAML file with settings. The environment wins over it. The flag --config names one too."}},
		{
			Setting: Setting{Name: "DATABASE_URL", Secret: true, Help: "The PostgreSQL database (15 or later), as a URL or as keywords and values."},
			missing: "write the address of a PostgreSQL database, like postgres://user:password@host:5432/gateway",
			check:   func(c *Config) error { return databaseURL(c.DatabaseURL.Reveal()) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SECRETS_KEY", Secret: true, Help: "The key that seals the vendors' secrets in the database: 32 random bytes in base64. Separate several keys with commas: the first one seals, all of them open."},
			missing: "make one with: openssl rand -base64 32",
		},
		{
			Setting: Setting{Name: "GATEWAY_STATE_DIR", Help: "Folder on local disk. serve creates it (0700) if it is missing; this version stores nothing in it. Default: $XDG_STATE_HOME/gateway, else ~/.local/state/gateway, for root /var/lib/gateway."},
			check:   func(c *Config) error { return absolute(c.StateDir) },
		},
		{
			Setting: Setting{Name: "GATEWAY_LISTEN", Default: ":8080", Help: "Public listener, for vendors: /webhooks/*, and /healthz for load balancers; nothing else."},
			check:   func(c *Config) error { return address(c.Listen) },
		},
		{
			Setting: Setting{Name: "GATEWAY_ADMIN_LISTEN", Default: "127.0.0.1:8081", Help: "Admin listener, for operators: /metrics, /livez, /readyz. Keep it private."},
			check:   func(c *Config) error { return address(c.AdminListen) },
		},
		{Setting: Setting{Name: "GATEWAY_ADMIN_OPEN", Default: "false", Help: "true says that something else protects the admin listener, which has no authentication. It may then listen off loopback, and it answers whatever host a request names."}},
		{Setting: Setting{Name: "GATEWAY_PPROF", Default: "false", Help: "Serve Go's profiles at /debug/pprof of the admin listener, which must then be on loopback."}},
		{Setting: Setting{Name: "GATEWAY_WAIT_FOR_POSTGRES", Default: "true", Help: "true: if PostgreSQL does not answer when serve starts, serve waits for it and is unready meanwhile. false: serve exits with status 4."}},
		{Setting: Setting{Name: "GATEWAY_ACCEPT_FSYNC_OFF", Default: "false", Help: "Start on a server that reports fsync = off because its provider makes commits durable in another way. On any other server a crash loses acknowledged deliveries."}},
		{Setting: Setting{Name: "GATEWAY_TRUSTED_PROXIES", Help: "Addresses and networks of the proxies in front of the gateway, separated by commas. The log takes the client's address from X-Forwarded-For only if one of them sent it. Unless set, it is the connection's."}},
		{Setting: Setting{Name: "GATEWAY_LOG_LEVEL", Default: "info", Help: "The lowest level that is logged: debug, info, warn or error."}},
	}
	list = append(append(append(list, limits()...), times()...), captures()...)
	for i := range list {
		if list[i].Name != fileSetting {
			list[i].YAML = strings.ToLower(strings.TrimPrefix(list[i].Name, prefix))
		}
	}
	return list
}

func limits() []setting {
	return []setting{
		{
			Setting: Setting{Name: "GATEWAY_MAX_CONNECTIONS", Default: "10000", Help: "Maximum number of connections to the public listener. Above it, the one that has gone longest without sending a whole request is closed."},
			check:   func(c *Config) error { return number(c.MaxConnections, 64, 1_000_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_MAX_BODY_BYTES", Default: "4MiB", Help: "Maximum size of a body as sent. A larger one is answered 413."},
			check:   func(c *Config) error { return size(c.MaxBodyBytes, 64*kib, 64*mib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_MAX_INFLATED_BYTES", Default: "16MiB", Help: "Maximum size of a body after decompression. A larger one is kept as it came, as a malformed drop."},
			check:   func(c *Config) error { return size(c.MaxInflatedBytes, 64*kib, 256*mib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_BODY_BUDGET_BYTES", Default: "256MiB", Help: "Maximum memory for all bodies together, a quarter of it for bodies up to 64 KiB. Above it, the body that has been arriving for longest is answered 503."},
			check:   func(c *Config) error { return size(c.BodyBudgetBytes, mib, 64*gib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_QUEUE_DELIVERIES", Default: "20000", Help: "Maximum number of deliveries that wait to be stored or are being stored. Above it, requests are answered 503."},
			check:   func(c *Config) error { return number(c.QueueDeliveries, 1000, 1_000_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_QUEUE_BYTES", Default: "128MiB", Help: "Maximum size of those deliveries together."},
			check:   func(c *Config) error { return size(c.QueueBytes, mib, 64*gib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_BATCH_DELIVERIES", Default: "256", Help: "Maximum number of deliveries in one transaction."},
			check:   func(c *Config) error { return number(c.BatchDeliveries, 1, 10_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_BATCH_BYTES", Default: "8MiB", Help: "Approximate maximum size of one transaction. A larger delivery goes alone."},
			check:   func(c *Config) error { return size(c.BatchBytes, 64*kib, 256*mib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_COMMITTERS", Default: "2", Help: "Number of transactions that store at the same time. Each takes one connection."},
			check:   func(c *Config) error { return number(c.Committers, 1, 64) },
		},
	}
}

func times() []setting {
	return []setting{
		{
			Setting: Setting{Name: "GATEWAY_READ_TIMEOUT", Default: "10s", Help: "Maximum time for a request's body to arrive."},
			check:   func(c *Config) error { return duration(c.ReadTimeout, 100*time.Millisecond, 5*time.Minute) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SETTLE_TIMEOUT", Default: "2500ms", Help: "Maximum time to store a delivery once its body has arrived; then the answer is 503. Slack gives up after 3 s, Nylas after 10 s."},
			check:   func(c *Config) error { return duration(c.SettleTimeout, 100*time.Millisecond, time.Minute) },
		},
		{
			Setting: Setting{Name: "GATEWAY_INBOX_RETENTION", Default: "720h", Help: "How long deliveries are kept: whole days, 24h at least."},
			check: func(c *Config) error {
				if c.InboxRetention%day != 0 {
					return fmt.Errorf("%s is not a whole number of days; the inbox is dropped by the day, write 24h, 48h or 720h", c.InboxRetention)
				}
				return duration(c.InboxRetention, day, 3650*day)
			},
		},
		{
			Setting: Setting{Name: "GATEWAY_DROPS_RETENTION", Default: "336h", Help: "How long drops are kept."},
			check:   func(c *Config) error { return duration(c.DropsRetention, time.Hour, 3650*day) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SWEEP_INTERVAL", Default: "1m", Help: "Time between two sweeps, which remove what is past its retention."},
			check:   func(c *Config) error { return duration(c.SweepInterval, time.Second, time.Hour) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SHUTDOWN_DELAY", Default: "0s", Help: "How long requests are still accepted after SIGTERM, while /readyz returns 503: what a load balancer needs to notice."},
			check:   func(c *Config) error { return duration(c.ShutdownDelay, 0, 5*time.Minute) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SHUTDOWN_TIMEOUT", Default: "25s", Help: "Maximum time, after that delay, to answer the requests in progress. Delay and timeout together must end before SIGKILL."},
			check:   func(c *Config) error { return duration(c.ShutdownTimeout, time.Second, 10*time.Minute) },
		},
	}
}

func captures() []setting {
	return []setting{
		{
			Setting: Setting{Name: "GATEWAY_CAPTURE_DIR", Help: "Folder for captures of verified requests, for gateway replay. They are as private as what vendors send. Off unless set."},
			check:   func(c *Config) error { return absoluteIfSet(c.CaptureDir) },
		},
		{
			Setting: Setting{Name: "GATEWAY_CAPTURE_FILES", Default: "1000", Help: "Maximum number of captures of each provider in that folder. Above it, no more are made."},
			check:   func(c *Config) error { return number(c.CaptureFiles, 1, 1_000_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_CAPTURE_BYTES", Default: "64MiB", Help: "Maximum size of their bodies together, for each provider."},
			check:   func(c *Config) error { return size(c.CaptureBytes, mib, 64*gib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_REJECTED_DIR", Help: "Folder for refused requests, with their signatures, for gateway doctor: 50 of each provider, 10 a minute, for an hour. Anybody can cause them. Off unless set."},
			check:   func(c *Config) error { return absoluteIfSet(c.RejectedDir) },
		},
	}
}

// checkTogether checks settings that depend on each other.
func (c *Config) checkTogether(p *problems) {
	if c.BodyBudgetBytes < c.MaxBodyBytes {
		p.add("GATEWAY_BODY_BUDGET_BYTES", fmt.Errorf("%s is less than GATEWAY_MAX_BODY_BYTES (%s), so the largest body never fits; raise it",
			formatBytes(c.BodyBudgetBytes), formatBytes(c.MaxBodyBytes)))
	}
	if c.QueueBytes < c.MaxBodyBytes {
		p.add("GATEWAY_QUEUE_BYTES", fmt.Errorf("%s is less than GATEWAY_MAX_BODY_BYTES (%s), so the largest delivery is never stored; raise it",
			formatBytes(c.QueueBytes), formatBytes(c.MaxBodyBytes)))
	}
	if c.ShutdownTimeout <= c.SettleTimeout {
		p.add("GATEWAY_SHUTDOWN_TIMEOUT", fmt.Errorf("%s is not longer than GATEWAY_SETTLE_TIMEOUT (%s), so a stop would cut off deliveries that are being stored; raise it",
			c.ShutdownTimeout, c.SettleTimeout))
	}
	if !c.AdminOpen && !OnLoopback(c.AdminListen) {
		p.add("GATEWAY_ADMIN_OPEN", fmt.Errorf("GATEWAY_ADMIN_LISTEN (%s) is not on loopback, and the admin listener has no authentication; listen on 127.0.0.1, or set GATEWAY_ADMIN_OPEN=true if something else protects it",
			c.AdminListen))
	}
	if c.Pprof && !OnLoopback(c.AdminListen) {
		p.add("GATEWAY_PPROF", fmt.Errorf("profiles show memory content, and GATEWAY_ADMIN_LISTEN (%s) is not on loopback; listen on 127.0.0.1, or leave profiles off",
			c.AdminListen))
	}
	if c.CaptureDir != "" && c.CaptureDir == c.RejectedDir {
		p.add("GATEWAY_REJECTED_DIR", errors.New("is the same folder as GATEWAY_CAPTURE_DIR, so refused requests would look like verified ones; choose another folder"))
	}
	if c.Listen == c.AdminListen && !strings.HasSuffix(c.Listen, ":0") {
		p.add("GATEWAY_ADMIN_LISTEN", fmt.Errorf("%s is also GATEWAY_LISTEN; choose another port", c.AdminListen))
	}
}

func number(n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%d is out of bounds; choose %d to %d", n, least, most)
	}
	return nil
}

func size(n, least, most int64) error {
	if n < least || n > most {
		return fmt.Errorf("%s is out of bounds; choose %s to %s", formatBytes(n), formatBytes(least), formatBytes(most))
	}
	return nil
}

func duration(d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%s is out of bounds; choose %s to %s", d, least, most)
	}
	return nil
}

func absolute(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is a relative path; write an absolute one", path)
	}
	return nil
}

func absoluteIfSet(path string) error {
	if path == "" {
		return nil
	}
	return absolute(path)
}

func address(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not a listen address; write host:port or :port, like 127.0.0.1:8081", text)
	}
	return nil
}

// OnLoopback reports whether a host, with or without a port, is a loopback address, which only this machine can reach.
func OnLoopback(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Dialable returns the address at which this machine calls what listens on an address.
func Dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // it was checked when the settings were loaded
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// databaseURL never quotes the text: it holds a password.
func databaseURL(text string) error {
	if text == "" {
		return nil
	}
	return dsn.Check(text)
}
