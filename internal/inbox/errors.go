package inbox

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

var errRoundTrip = errors.New("transaction took too long")

// code is PostgreSQL's code for an error, which unlike its text never quotes data.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// isMissingDay reports that no partition takes the row: 23514 without a constraint's name.
func isMissingDay(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && pg.ConstraintName == ""
}

// isRefusal reports that PostgreSQL refuses the data, and will refuse it again: 22 data exceptions,
// 23 constraint violations, 54 limits.
func isRefusal(err error) bool {
	if isMissingDay(err) {
		return false
	}
	switch c := code(err); {
	case len(c) != 5:
		return false
	default:
		return c[:2] == "22" || c[:2] == "23" || c[:2] == "54"
	}
}

func isLockTimeout(err error) bool { return code(err) == "55P03" }

// isReadOnly reports that the server takes no writes: it has become a standby.
func isReadOnly(err error) bool { return code(err) == "25006" }
