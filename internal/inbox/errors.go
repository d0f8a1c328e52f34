package inbox

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/sqlstate"
)

var errRoundTrip = errors.New("transaction took too long")

// isMissingDay reports whether no partition accepts the row: 23514 without a constraint's name.
func isMissingDay(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && pg.ConstraintName == ""
}

// isRefusal reports whether PostgreSQL refuses the data, and will refuse it again: 22 data exceptions, 23 constraint
// violations, 54 limits.
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

// isReadOnly reports whether the server accepts no writes: it has become a standby.
func isReadOnly(err error) bool { return sqlstate.Of(err) == "25006" }

// reconnect closes all connections of the pool, at most once in reconnectEvery. After a failover they may all lead to a
// server that vanished, where each costs one timeout, or to one that no longer accepts writes, where they would stay
// for their whole life. New connections may lead there too, hence the bound.
func (b *Inbox) reconnect() {
	b.connections.Lock()
	defer b.connections.Unlock()
	if time.Since(b.reconnected) >= reconnectEvery {
		b.pool.Reset()
		b.reconnected = time.Now()
	}
}
