package inbox

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/sqlstate"
)

var errRoundTrip = errors.New("transaction took too long")

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
	switch sqlstate.Class(err) {
	case "22", "23", "54":
		return true
	}
	return false
}

func isLockTimeout(err error) bool { return sqlstate.Of(err) == "55P03" }

// isReadOnly reports that the server takes no writes: it has become a standby.
func isReadOnly(err error) bool { return sqlstate.Of(err) == "25006" }
