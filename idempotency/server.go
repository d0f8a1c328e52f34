package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrServer: the server could lose claims, or the statements are not correct on it.
var ErrServer = errors.New("idempotency: unsuitable server")

const oldestServer = 150000

const serverSQL = `
	SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
	       current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	       current_setting('default_transaction_isolation'), current_setting('server_encoding'),
	       current_setting('default_transaction_read_only')`

// server holds the values that CheckServer queries.
type server struct {
	number                       int
	version                      string
	standby                      bool
	fsync, fullPages, commitWait string
	isolation, encoding          string
	readOnly                     string
}

// ServerOptions say what CheckServer accepts.
type ServerOptions struct {
	// AcceptFsyncOff accepts a server with fsync off, because it stores its log elsewhere before it answers a COMMIT,
	// as some providers do. On any other server a crash loses acknowledged claims.
	AcceptFsyncOff bool
}

// CheckServer refuses a server on which a claim could be lost or wrong. The error lists every reason and what to
// change: PostgreSQL below 15, a standby, a server that accepts no writes, settings under which a crash loses committed
// data, a default isolation other than READ COMMITTED, an encoding other than UTF8. The error wraps ErrServer.
func CheckServer(ctx context.Context, db DB, o ServerOptions) error {
	rows, err := db.Query(ctx, serverSQL)
	if err != nil {
		return fmt.Errorf("check server: %w", err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (s server, err error) {
		err = row.Scan(&s.number, &s.version, &s.standby, &s.fsync, &s.fullPages, &s.commitWait, &s.isolation, &s.encoding, &s.readOnly)
		return s, err
	})
	if err != nil {
		return fmt.Errorf("check server: %w", err)
	}
	return s.check(o)
}

func (s server) check(o ServerOptions) error {
	var problems []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrServer}, args...)...))
		}
	}
	refuse(s.number < oldestServer, "it is PostgreSQL %s: upgrade to 15 or later", s.version)
	refuse(s.standby, "it is a standby, which accepts no claims and may lag behind: connect to the primary "+
		"(target_session_attrs=read-write in the connection string)")
	refuse(!s.standby && s.readOnly == "on", "default_transaction_read_only is on, it accepts no writes: "+
		"free its disk if it is full, then set it off for the server, this role and the database")
	refuse(s.fsync != "on" && !o.AcceptFsyncOff, "fsync is %s, a crash loses acknowledged claims: set fsync = on and reload", s.fsync)
	refuse(s.fullPages != "on", "full_page_writes is %s, a crash can tear pages: set full_page_writes = on and reload", s.fullPages)
	refuse(s.commitWait == "off", "synchronous_commit is off, a crash loses acknowledged claims: "+
		"set synchronous_commit = on for this role or database")
	refuse(s.isolation != readCommitted, "default_transaction_isolation is %s: run "+
		"ALTER ROLE or ALTER DATABASE … SET default_transaction_isolation = 'read committed'", s.isolation)
	refuse(s.encoding != "UTF8", "the database's encoding is %s: create it with ENCODING 'UTF8'", s.encoding)
	return errors.Join(problems...)
}
