package idempotency

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DurableCommit is a list of SQL expressions to SELECT in a transaction. They make its COMMIT wait until the commit is
// flushed, and until every synchronous standby has it, even if the transaction writes nothing.
//
// A row can be visible before a standby has it: if the wait of its COMMIT was cancelled, or the primary restarted
// meanwhile. A transaction that only reads such a row has nothing to wait for, and a failover loses the row behind its
// answer. The expressions write a message of a few bytes to the log, and the COMMIT waits for the message, which comes
// after everything that the transaction has seen. Servers without synchronous standbys write no message. Warnings must
// stay enabled, because one of them reports that a wait was cancelled: see WatchCommits.
const DurableCommit = `CASE WHEN current_setting('client_min_messages') = 'error' THEN set_config('client_min_messages', 'warning', true) END,
	                   CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
	                        THEN set_config('synchronous_commit', 'on', true) END,
	                   CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(true, 'idempotency', '') END`

// ErrUnreplicated: the transaction is committed on the primary, but its wait for the synchronous standbys was cancelled
// (pg_cancel_backend). PostgreSQL answers such a COMMIT like any other, with a warning. A failover may still lose the
// commit, so the outcome is unknown: repeat the call.
var ErrUnreplicated = errors.New("idempotency: committed, but the wait for a synchronous standby was cancelled")

const unreplicatedMark = "idempotency: unreplicated"

// WatchCommits makes connections record the warning that a COMMIT no longer waits for the synchronous standbys. A
// Service whose pool has such a config then returns ErrUnreplicated; without it, it takes the commit for durable.
func WatchCommits(config *pgx.ConnConfig) {
	next := config.OnNotice
	config.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		// Translations change every part of the notice except the routine's name.
		if n.Routine == "SyncRepWaitForLSN" {
			conn.CustomData()[unreplicatedMark] = true
		}
		if next != nil {
			next(conn, n)
		}
	}
}

// CheckReplicated returns ErrUnreplicated if a COMMIT on the connection has stopped waiting for the synchronous
// standbys since the last call. See WatchCommits.
func CheckReplicated(conn *pgx.Conn) error {
	data := conn.PgConn().CustomData()
	if _, marked := data[unreplicatedMark]; !marked {
		return nil
	}
	delete(data, unreplicatedMark)
	return ErrUnreplicated
}

// checkedPool is a pool whose batches, each one transaction, fail with ErrUnreplicated.
type checkedPool struct{ *pgxpool.Pool }

func (p checkedPool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return unsentBatch{err: err}
	}
	return checkedBatch{conn.SendBatch(ctx, b), conn}
}

type checkedBatch struct {
	pgx.BatchResults
	conn *pgxpool.Conn
}

func (b checkedBatch) Close() error {
	defer b.conn.Release()
	if err := b.BatchResults.Close(); err != nil {
		return err
	}
	return CheckReplicated(b.conn.Conn())
}

// unsentBatch is a batch for which there was no connection. Only Close is called on it.
type unsentBatch struct {
	pgx.BatchResults
	err error
}

func (b unsentBatch) Close() error { return b.err }
