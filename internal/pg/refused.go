package pg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Explain says in our own words why a connection failed. Neither pgx's text nor the server's is safe to show: both
// quote the user, which may contain the password of a mistyped connection string. It returns "" for an error of another
// kind.
func Explain(err error) string {
	var failed *pgconn.ConnectError
	var server *pgconn.PgError
	switch {
	case errors.As(err, &failed):
		return explainConnect(failed)
	case errors.As(err, &server) && slices.Contains([]string{"08", "28", "3D"}, server.Code[:2]): // a pooler reports it late
		return explainServer(server, &pgconn.Config{})
	default:
		return ""
	}
}

func explainConnect(failed *pgconn.ConnectError) string {
	var texts []string
	for _, err := range leaves(failed.Unwrap()) {
		text := err.Error()
		var server *pgconn.PgError
		if errors.As(err, &server) {
			text = explainServer(server, failed.Config)
		}
		if !slices.Contains(texts, text) { // sslmode=prefer tries a host twice
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// leaves splits what errors.Join has joined: an error for each host that was tried.
func leaves(err error) []error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []error{err}
	}
	var list []error
	for _, one := range many.Unwrap() {
		list = append(list, leaves(one)...)
	}
	return list
}

func explainServer(e *pgconn.PgError, c *pgconn.Config) string {
	parameter := refusedParameter(e, c)
	switch {
	case e.Code == "28P01" && c.User != "" && c.Password == "":
		return "it asks for a password, but none is set: set it in DATABASE_URL, PGPASSWORD or the password file"
	case e.Code == "28P01":
		return "wrong password, or no such role; in a URL a password has @ / % and blanks as %40 %2F %25 %20"
	case e.Code == "28000" && e.Routine == "InitializeSessionUserId":
		return "the role does not exist, or may not log in"
	case e.Code == "28000":
		return "authentication failed: pg_hba.conf has no entry for this client, role and database, or one that asks for TLS (sslmode=require) or a certificate"
	case e.Code == "3D000" && c.Database == "":
		return "the database does not exist; DATABASE_URL names none, or a pooler knows none of this name"
	case e.Code == "3D000":
		return fmt.Sprintf("the database %q does not exist", c.Database)
	case e.Code == "42704" && parameter != "":
		return fmt.Sprintf("unknown parameter %s in DATABASE_URL: leave it out, or check the spelling", parameter)
	case parameter != "":
		return fmt.Sprintf("the parameter %s in DATABASE_URL is refused: leave it out, or check its value (SQLSTATE %s)", parameter, e.Code)
	case e.Code == "42501":
		return fmt.Sprintf("the role may not connect to the database %q: GRANT CONNECT", c.Database)
	case e.Code[:2] == "57": // it is starting or stopping
		return e.Message
	case e.Code[:2] == "53":
		return "too many connections, or no memory or disk (SQLSTATE " + e.Code + ")"
	default:
		return "it refuses with SQLSTATE " + e.Code
	}
}

// refusedParameter returns the parameter of the connection string that a server's error names; "" if there is none.
func refusedParameter(e *pgconn.PgError, c *pgconn.Config) string {
	switch e.Code {
	case "42704", "22023", "55P02", "42501", "08P01": // the last is a pooler's
	default:
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(c.RuntimeParams)) {
		if strings.Contains(e.Message, `"`+name+`"`) || e.Code == "08P01" && strings.HasSuffix(e.Message, ": "+name) {
			return name
		}
	}
	return ""
}
