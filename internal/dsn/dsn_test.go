package dsn

import (
	"strings"
	"testing"
)

// Every password here is made of texts with zq in them.
var refused = []struct{ name, text, says string }{
	{"@ in the password", "postgres://me:zq1@zq2@host:5432/db", "more than one @"},
	{"@ twice in the password", "postgres://me:zq1@zq2@zq3@host/db", "more than one @"},
	{"/ in the password", "postgres://me:zq1/zq2@host/db", "a / before the @"},
	{"/ and ? in the password", "postgres://me:zq1?zq2/zq3@host/db", "a / before the @"},
	{"% in the password", "postgres://me:zq1%zq2@host/db", "% without two hexadecimal digits"},
	{"% before the @", "postgres://me:zq1%@host/db", "% without two hexadecimal digits"},
	{"% at the end", "postgres://me@host/db?password=zq1%", "% without two hexadecimal digits"},
	{"a blank in the password", "postgres://me:zq1 zq2@host/db", "holds a blank"},
	{"a trailing blank", "postgres://me:zq1@host/db ", "holds a blank"},
	{"a trailing newline", "postgres://me:zq1@host/db\n", "a line break"},
	{"a leading newline", "\npostgres://me:zq1@host/db", "is not a PostgreSQL connection string"},
	{"CRLF", "postgres://me:zq1@host/db\r\n", "a line break"},
	{"NUL", "postgres://me:zq1\x00zq2@host/db", "a line break or another control character"},
	{"no host, letters", "postgres://me:zq1", "after user:password there must be an @"},
	{"no host, a slash", "postgres://me:zq1/zq2", "after user:password there must be an @"},
	{"no host, a question mark", "postgres://me:zq1?zq2=3", "after user:password there must be an @"},
	{"no host, digits", "postgres://me:1?zq2", "of the form name=value"},
	{"no host, a colon", "postgres://me:zq1:zq2", "more than one colon"},
	{"a port in words", "postgres://me:zq1@host:zq2/db", "port that is not a number"},
	{"port 0", "postgres://me:zq1@host:0/db", "port that is not a number"},
	{"a port too large", "postgres://me:zq1@host:65536/db", "port that is not a number"},
	{"the second port", "postgres://me:zq1@a:1,b:zq2/db", "port that is not a number"},
	{"a bracket", "postgres://me:zq1@[::1/db", "has a host with a ["},
	{"IPv6 without brackets", "postgres://me:zq1@::1/db", "in brackets"},
	{"& in a parameter", "postgres://host/db?password=zq1&zq2", "of the form name=value"},
	{"= in a parameter", "postgres://host/db?password=zq1=zq2", "of the form name=value"},
	{"& and = in a parameter", "postgres://host/db?password=zq1&zq2=zq3", "unknown parameter after password"},
	{"@ in a parameter", "postgres://host/db?password=zq1@zq2", "an @ in a parameter as %40"},
	{"a parameter's name", "postgres://me:zq1@host/db?a-b=1", "of the form name=value"},
	{"another driver's parameter", "postgres://me:zq1@host/db?pgbouncer=true", "the parameter pgbouncer, which cannot be used here"},
	{"a schema", "postgres://me:zq1@host/db?schema=public", "the parameter schema, which cannot be used here: leave it out; the tables are in the schema agent"},
	{"sslmode", "postgres://me:zq1@host/db?sslmode=on", "a sslmode other than disable, allow"},
	{"target_session_attrs", "postgres://me:zq1@a,b/db?target_session_attrs=rw", "a target_session_attrs other than any, read-write"},
	{"connect_timeout", "postgres://me:zq1@host/db?connect_timeout=5s", "connect_timeout that is not a number"},
	{"pool_max_conns", "postgres://me:zq1@host/db?pool_max_conns=0", "pool_max_conns that is not a number"},
	{"quotes", `"postgres://me:zq1@host/db"`, "remove the quotes"},
	{"single quotes", "'postgres://me:zq1@host/db'", "remove the quotes"},
	{"another scheme", "mysql://me:zq1@host/db", "is not a PostgreSQL connection string"},
	{"no scheme", "me:zq1@host/db", "is not a PostgreSQL connection string"},
	{"no scheme, =", "me:zq1=zq2@host/db", "a word that is not keyword=value"},
	{"one slash", "postgres:/me:zq1@host/db?sslmode=disable", "a word that is not keyword=value"},
	{"keywords, a blank", "host=h password=zq1 zq2 dbname=d", "a word that is not keyword=value"},
	{"keywords, a blank at the end", "host=h password=zq1 zq2", "a word that is not keyword=value"},
	{"keywords, a blank and =", "host=h password=zq1 zq2=zq3 dbname=d", "unknown parameter after password"},
	{"keywords, no closing quote", "host=h password='zq1", "begins with a single quote"},
	{"keywords, a quote inside", "host=h password='zq1'zq2' dbname=d", "begins with a single quote"},
	{"keywords, ends in a backslash", `host=h password='zq1\`, "begins with a single quote"},
	{"keywords, an empty value", "password= host=zq", "write '' for an empty value"},
	{"keywords, a port", "host=h port=zq1", "port that is not a number"},
	{"keywords, a foreign one", "host=h password=zq1 pgbouncer=true", "the parameter pgbouncer"},
}

func TestErrorsHidePassword(t *testing.T) {
	t.Parallel()
	for _, tt := range refused {
		err := Check(tt.text)
		switch {
		case err == nil:
			t.Errorf("%s: no error", tt.name)
		case !strings.Contains(err.Error(), tt.says):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		case strings.Contains(err.Error(), "zq"):
			t.Errorf("%s: the password is shown: %v", tt.name, err)
		}
		if place := Place(tt.text); strings.Contains(place, "zq") {
			t.Errorf("%s: the password is shown: %s", tt.name, place)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://me:zq@host:5432/db": "postgres://host:5432/db",
		"postgresql://host":             "postgres://host",
		"postgres://me:zq%40%2F%3F%23%25@host/db?sslmode=disable&password=zq":                        "postgres://host/db",
		"postgres://me:z?q#@host/db?password=z#q":                                                    "postgres://host/db",
		"postgres://me:z:q@host/db":                                                                  "postgres://host/db",
		"postgres://me:zq@a:5432,b,[::1]:5433/db?target_session_attrs=read-write&application_name=x": "postgres://a:5432,b,[::1]:5433/db",
		"postgres:///db?host=%2Fvar%2Frun%2Fpostgresql":                                              "postgres:///db",
		"postgres://me@host/db?options=-c%20geqo%3Doff&search_path=x&ssl=true&connect_timeout=5":     "postgres://host/db",
		"host=h user=me password=zq dbname=d":                                                        "",
		" host = h\n password = 'z q\\'\\\\=@/' port=1,2 sslmode=require\n":                          "",
		`password=z\ q host=h options='-c geqo=off'`:                                                 "",
		"password='' host=h":    "",
		"host=h password=":      "",
		"host=h password=z://q": "",
		"host=":                 "",
	} {
		if err := Check(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got := Place(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, tt := range refused {
		f.Add(tt.text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		_ = Check(text)
		_ = Place(text)
	})
}
