package pg_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/dsn"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/pgtest"
)

// What is accepted is read by pgx with all of the password as the password, whatever is in it.
func TestPasswordCharacters(t *testing.T) {
	t.Parallel()
	letters := strings.Split("@ / ? # % : & = , ' \" \\ [ ] + ; a 4 \n", " ")
	letters = append(letters, " ")
	var passwords []string
	for _, a := range letters {
		for _, b := range letters {
			passwords = append(passwords, a+b)
			for _, c := range letters {
				passwords = append(passwords, a+b+c)
			}
		}
	}
	accepted := 0
	for _, password := range passwords {
		for _, form := range []string{"postgres://me:PASSWORD@host:5432/db?application_name=x", "host=host user=me password=PASSWORD dbname=db application_name=x"} {
			text := strings.Replace(form, "PASSWORD", password, 1)
			if dsn.Check(text) != nil {
				continue
			}
			config, err := pgx.ParseConfig(text)
			if err != nil {
				continue
			}
			accepted++
			if strings.HasSuffix(password, `\`) && config.Database == "" { // it escapes the blank behind it: all is the password
				config.Database = "db"
			}
			if config.Host != "host" || config.Port != 5432 || config.User != "me" || config.Database != "db" || len(config.RuntimeParams) != 1 {
				t.Fatalf("%q is read as host %q, port %d, user %q, database %q, %v", text, config.Host, config.Port, config.User, config.Database, config.RuntimeParams)
			}
			if want, err := url.PathUnescape(password); strings.HasPrefix(form, "postgres") && (err != nil || config.Password != want) {
				t.Fatalf("%q is read with the password %q", text, config.Password)
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("%d passwords are accepted of %d", accepted, len(passwords))
	}
}

// replaced is a URL with parts of it replaced.
func replaced(t *testing.T, text string, edit func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	edit(u)
	return u.String()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	good := pgtest.New(t)
	alter(t, good, `CREATE ROLE zqsleeper NOLOGIN PASSWORD 'zq'`, `CREATE ROLE zqguest LOGIN PASSWORD 'zq'`,
		`REVOKE CONNECT ON DATABASE `+name(good)+` FROM PUBLIC`)
	user := func(name, password string) func(*url.URL) {
		return func(u *url.URL) { u.User = url.UserPassword(name, password) }
	}
	query := func(text string) func(*url.URL) { return func(u *url.URL) { u.RawQuery += "&" + text } }
	superuser := func() string { u, _ := url.Parse(good); return u.User.Username() }()
	for _, tt := range []struct {
		name string
		edit func(*url.URL)
		says string
	}{
		{"a wrong password", user(superuser, "zqwrong"), "wrong password, or no such role"},
		{"no password", func(u *url.URL) { u.User = url.User(superuser) }, "it asks for a password, but none is set"},
		{"no such role", user("zqnobody", "zq"), "wrong password, or no such role"}, // the server does not tell
		{"a role that may not log in", user("zqsleeper", "zq"), "the role does not exist, or may not log in"},
		{"a role that may not connect", user("zqguest", "zq"), "the role may not connect to the database \"" + name(good) + "\""},
		{"no such database", func(u *url.URL) { u.Path = "/nowhere" }, `the database "nowhere" does not exist`},
		{"an unknown parameter", query("bouncer=true"), "unknown parameter bouncer in DATABASE_URL"},
		{"a bad value", query("statement_timeout=zq"), "the parameter statement_timeout in DATABASE_URL is refused"},
		{"of the server alone", query("shared_buffers=1GB"), "the parameter shared_buffers in DATABASE_URL is refused"},
	} {
		pool, err := pg.Open(t.Context(), replaced(t, good, tt.edit), 1)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		err = pool.Ping(t.Context())
		pool.Close()
		got := pg.Explain(err)
		if !strings.Contains(got, tt.says) || strings.Contains(got, "zq") || pg.Passing(err) {
			t.Errorf("%s: %q, want %q; passing %v; %v", tt.name, got, tt.says, pg.Passing(err), err)
		}
	}
	if got := pg.Explain(errors.New("another error")); got != "" {
		t.Errorf("another error is explained: %s", got)
	}
}

func TestUnreachableHosts(t *testing.T) {
	t.Parallel()
	good := pgtest.New(t)
	both := replaced(t, good, func(u *url.URL) {
		u.Host, u.RawQuery = "127.0.0.1:1,127.0.0.1:2", "sslmode=prefer&target_session_attrs=read-write"
	})
	pool, err := pg.Open(t.Context(), both, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	got := pg.Explain(pool.Ping(t.Context()))
	if strings.Count(got, "127.0.0.1:1 ") != 1 || strings.Count(got, "127.0.0.1:2 ") != 1 {
		t.Errorf("%q, want each host once", got)
	}
	u, _ := url.Parse(good)
	second, err := pg.Open(t.Context(), replaced(t, good, func(v *url.URL) { v.Host = "127.0.0.1:1," + u.Host }), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := second.Ping(t.Context()); err != nil {
		t.Errorf("the second host is not tried: %v", err)
	}
}

func TestPgxErrorsHidePassword(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.crt")
	unreadable := filepath.Join(t.TempDir(), "zq.crt")
	if err := os.WriteFile(unreadable, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{
		"postgres://me:zq1@host/db?sslmode=verify-full&sslrootcert=" + pipe:       pipe + " is a pipe",
		"host=h user=me passfile='" + pipe + "' dbname=d":                         pipe + " is a pipe",
		"postgres://me:zq1@host/db?sslmode=verify-full&sslrootcert=" + missing:    missing,
		"postgres://me:zq1@host/db?sslmode=verify-full&sslrootcert=" + unreadable: "a parameter with a value that cannot be used",
		"postgres://me:zq1@host/db?pool_max_conn_lifetime=zq2":                    "a parameter with a value that cannot be used",
		"host=a,b port=1,2,3 password=zq1":                                        "a parameter with a value that cannot be used",
		"postgres://me:zq1@zq2@host/db":                                           "DATABASE_URL holds more than one @",
	} {
		err := pg.Check(text)
		if !errors.Is(err, pg.ErrSettings) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "zq") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if err := pg.Check("postgres://me:zq1@a:1,b:2/db?target_session_attrs=read-write"); err != nil {
		t.Error(err)
	}
}
