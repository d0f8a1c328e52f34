package inbox

import (
	"errors"
	"time"

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

// reconnect gives up all connections of the pool, at most once in reconnectEvery. After a failover they may all lead to
// a server that vanished, each good for one time-out, or to one that takes no writes any more and would keep them for
// their whole life. New connections may lead there too, hence the bound.
func (b *Inbox) reconnect() {
	b.connections.Lock()
	defer b.connections.Unlock()
	if time.Since(b.reconnected) >= reconnectEvery {
		b.pool.Reset()
		b.reconnected = time.Now()
	}
}
