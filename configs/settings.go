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

// fileSetting names the file; it cannot stand in one.
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
	YAML    string // key in the file; empty: the environment alone
	Default string // as it would be written; empty: none
	Help    string // one sentence or two
	Secret  bool   // never printed
}

type setting struct {
	Setting
	missing string              // what to do when a command needs it and it is not set
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

// table is the one place where settings are described. A setting is a row here and a field of Config.
func table() []setting {
	list := []setting{
		{Setting: Setting{Name: fileSetting, Help: "YAML file with settings; the environment wins over it. The flag --config names one too."}},
		{
			Setting: Setting{Name: "DATABASE_URL", Secret: true, Help: "The PostgreSQL database (15 or later), as a URL or as keywords and values."},
			missing: "write the address of a PostgreSQL database, like postgres://user:password@host:5432/gateway",
			check:   func(c *Config) error { return databaseURL(c.DatabaseURL.Reveal()) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SECRETS_KEY", Secret: true, Help: "The key that seals the vendors' secrets in the database: 32 random bytes in base64. Several with commas between: the first seals, all open."},
			missing: "make one with: openssl rand -base64 32",
		},
		{
			Setting: Setting{Name: "GATEWAY_STATE_DIR", Help: "Folder on local disk that serve makes (0700) if it is missing; this version keeps nothing in it. Default: $XDG_STATE_HOME/gateway, else ~/.local/state/gateway, for root /var/lib/gateway."},
			check:   func(c *Config) error { return absolute(c.StateDir) },
		},
		{
			Setting: Setting{Name: "GATEWAY_LISTEN", Default: ":8080", Help: "Where vendors call: /webhooks/*, and /healthz for load balancers; nothing else."},
			check:   func(c *Config) error { return address(c.Listen) },
		},
		{
			Setting: Setting{Name: "GATEWAY_ADMIN_LISTEN", Default: "127.0.0.1:8081", Help: "Where operators look: /metrics, /livez, /readyz. Keep it private."},
			check:   func(c *Config) error { return address(c.AdminListen) },
		},
		{Setting: Setting{Name: "GATEWAY_ADMIN_OPEN", Default: "false", Help: "I protect the admin listener otherwise: it may then be off loopback, and answers whatever host a request names. It has no authentication."}},
		{Setting: Setting{Name: "GATEWAY_PPROF", Default: "false", Help: "Go's profiles at /debug/pprof of the admin listener, which must then be on loopback."}},
		{Setting: Setting{Name: "GATEWAY_WAIT_FOR_POSTGRES", Default: "true", Help: "Whether serve waits at its start for a PostgreSQL that does not answer, unready meanwhile. false: it exits with status 4."}},
		{Setting: Setting{Name: "GATEWAY_ACCEPT_FSYNC_OFF", Default: "false", Help: "Start on a server that reports fsync = off, because its provider makes commits durable in another way. On any other server a crash loses what was acknowledged."}},
		{Setting: Setting{Name: "GATEWAY_TRUSTED_PROXIES", Help: "Addresses and networks of the proxies before the gateway, with commas between: from them alone X-Forwarded-For is taken for the client's address in the log. Unless set it is the connection's."}},
		{Setting: Setting{Name: "GATEWAY_LOG_LEVEL", Default: "info", Help: "The least that is logged: debug, info, warn or error."}},
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
			Setting: Setting{Name: "GATEWAY_MAX_CONNECTIONS", Default: "10000", Help: "Connections to the public listener at once; over it the one gives way that has sent no whole request for longest."},
			check:   func(c *Config) error { return number(c.MaxConnections, 64, 1_000_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_MAX_BODY_BYTES", Default: "4MiB", Help: "The largest body on the wire; a larger one is answered 413."},
			check:   func(c *Config) error { return size(c.MaxBodyBytes, 64*kib, 64*mib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_MAX_INFLATED_BYTES", Default: "16MiB", Help: "The largest body after inflating; a larger one is kept as it came, as a malformed drop."},
			check:   func(c *Config) error { return size(c.MaxInflatedBytes, 64*kib, 256*mib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_BODY_BUDGET_BYTES", Default: "256MiB", Help: "Bytes of all bodies in memory at once, a quarter of them for bodies up to 64 KiB; over it the body that has been arriving for longest is answered 503."},
			check:   func(c *Config) error { return size(c.BodyBudgetBytes, mib, 64*gib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_QUEUE_DELIVERIES", Default: "20000", Help: "Deliveries that may wait to be stored, or be under way; over it a request is answered 503."},
			check:   func(c *Config) error { return number(c.QueueDeliveries, 1000, 1_000_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_QUEUE_BYTES", Default: "128MiB", Help: "Bytes of those deliveries."},
			check:   func(c *Config) error { return size(c.QueueBytes, mib, 64*gib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_BATCH_DELIVERIES", Default: "256", Help: "Deliveries that one transaction stores at most."},
			check:   func(c *Config) error { return number(c.BatchDeliveries, 1, 10_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_BATCH_BYTES", Default: "8MiB", Help: "Bytes that one transaction stores, about; a larger delivery goes alone."},
			check:   func(c *Config) error { return size(c.BatchBytes, 64*kib, 256*mib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_COMMITTERS", Default: "2", Help: "Transactions that store at once; each takes one connection."},
			check:   func(c *Config) error { return number(c.Committers, 1, 64) },
		},
	}
}

func times() []setting {
	return []setting{
		{
			Setting: Setting{Name: "GATEWAY_READ_TIMEOUT", Default: "10s", Help: "How long a request's body may take to arrive."},
			check:   func(c *Config) error { return duration(c.ReadTimeout, 100*time.Millisecond, 5*time.Minute) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SETTLE_TIMEOUT", Default: "2500ms", Help: "How long a vendor's call waits, once its body is there, for its delivery to be stored; then 503. Slack gives up after 3 s, Nylas after 10 s."},
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
			Setting: Setting{Name: "GATEWAY_SWEEP_INTERVAL", Default: "1m", Help: "How long to wait between two sweeps of what is past its retention."},
			check:   func(c *Config) error { return duration(c.SweepInterval, time.Second, time.Hour) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SHUTDOWN_DELAY", Default: "0s", Help: "How long, after SIGTERM, requests are still taken while /readyz says 503: what a load balancer needs to notice."},
			check:   func(c *Config) error { return duration(c.ShutdownDelay, 0, 5*time.Minute) },
		},
		{
			Setting: Setting{Name: "GATEWAY_SHUTDOWN_TIMEOUT", Default: "25s", Help: "How long, after that, requests under way may take to be answered. With the delay, less than what SIGKILL waits for."},
			check:   func(c *Config) error { return duration(c.ShutdownTimeout, time.Second, 10*time.Minute) },
		},
	}
}

func captures() []setting {
	return []setting{
		{
			Setting: Setting{Name: "GATEWAY_CAPTURE_DIR", Help: "Folder to capture verified requests in, for gateway replay; what is in it is as private as what vendors send. Off unless set."},
			check:   func(c *Config) error { return absoluteIfSet(c.CaptureDir) },
		},
		{
			Setting: Setting{Name: "GATEWAY_CAPTURE_FILES", Default: "1000", Help: "How many captures that folder may hold of each provider; then no more are made."},
			check:   func(c *Config) error { return number(c.CaptureFiles, 1, 1_000_000) },
		},
		{
			Setting: Setting{Name: "GATEWAY_CAPTURE_BYTES", Default: "64MiB", Help: "And how many bytes of bodies."},
			check:   func(c *Config) error { return size(c.CaptureBytes, mib, 64*gib) },
		},
		{
			Setting: Setting{Name: "GATEWAY_REJECTED_DIR", Help: "Folder to keep refused requests in, signatures too, for gateway doctor: 50 of each provider, 10 a minute, for an hour. Anybody can cause them. Off unless set."},
			check:   func(c *Config) error { return absoluteIfSet(c.RejectedDir) },
		},
	}
}

// checkTogether looks at settings that only make sense together.
func (c *Config) checkTogether(p *problems) {
	if c.BodyBudgetBytes < c.MaxBodyBytes {
		p.add("GATEWAY_BODY_BUDGET_BYTES", fmt.Errorf("%s is less than GATEWAY_MAX_BODY_BYTES (%s), so that the largest body never fits; raise it",
			formatBytes(c.BodyBudgetBytes), formatBytes(c.MaxBodyBytes)))
	}
	if c.QueueBytes < c.MaxBodyBytes {
		p.add("GATEWAY_QUEUE_BYTES", fmt.Errorf("%s is less than GATEWAY_MAX_BODY_BYTES (%s), so that the largest delivery is never stored; raise it",
			formatBytes(c.QueueBytes), formatBytes(c.MaxBodyBytes)))
	}
	if c.ShutdownTimeout <= c.SettleTimeout {
		p.add("GATEWAY_SHUTDOWN_TIMEOUT", fmt.Errorf("%s is not longer than GATEWAY_SETTLE_TIMEOUT (%s), so that a stop would cut off what may still be stored; raise it",
			c.ShutdownTimeout, c.SettleTimeout))
	}
	if !c.AdminOpen && !OnLoopback(c.AdminListen) {
		p.add("GATEWAY_ADMIN_OPEN", fmt.Errorf("GATEWAY_ADMIN_LISTEN (%s) is not on loopback, and the admin listener has no authentication; listen on 127.0.0.1, or set GATEWAY_ADMIN_OPEN=true to say: I protect it otherwise",
			c.AdminListen))
	}
	if c.Pprof && !OnLoopback(c.AdminListen) {
		p.add("GATEWAY_PPROF", fmt.Errorf("profiles show what is in memory, and GATEWAY_ADMIN_LISTEN (%s) is not on loopback; listen on 127.0.0.1, or leave it off",
			c.AdminListen))
	}
	if c.CaptureDir != "" && c.CaptureDir == c.RejectedDir {
		p.add("GATEWAY_REJECTED_DIR", errors.New("is GATEWAY_CAPTURE_DIR as well; what was refused must not be taken for what was verified: choose another folder"))
	}
	if c.Listen == c.AdminListen && !strings.HasSuffix(c.Listen, ":0") {
		p.add("GATEWAY_ADMIN_LISTEN", fmt.Errorf("%s is GATEWAY_LISTEN as well; choose another port", c.AdminListen))
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
		return fmt.Errorf("%q depends on where the process was started; write a path from the root", path)
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
		return fmt.Errorf("%q is no address to listen on; write host:port or :port, like 127.0.0.1:8081", text)
	}
	return nil
}

// OnLoopback reports whether a host, with or without a port, is this machine and reachable from it alone.
func OnLoopback(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// databaseURL never tells the text: it holds a password.
func databaseURL(text string) error {
	if text == "" {
		return nil
	}
	return dsn.Check(text)
}
