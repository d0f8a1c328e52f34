package sqlstate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes are those of PostgreSQL's appendix A.
func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err                                error
		code, class                        string
		connectionEnded, noTable, noColumn bool
	}{
		{err: nil},
		{err: errors.New("refused")},
		{err: &pgconn.PgError{Code: "23505"}, code: "23505", class: "23"},
		{err: fmt.Errorf("insert: %w", &pgconn.PgError{Code: "08006"}), code: "08006", class: "08", connectionEnded: true},
		{err: &pgconn.PgError{Code: "57P01"}, code: "57P01", class: "57", connectionEnded: true},
		{err: &pgconn.PgError{Code: "57014"}, code: "57014", class: "57"},
		{err: &pgconn.PgError{Code: "42P01"}, code: "42P01", class: "42", noTable: true},
		{err: &pgconn.PgError{Code: "3F000"}, code: "3F000", class: "3F", noTable: true},
		{err: &pgconn.PgError{Code: "42703"}, code: "42703", class: "42", noColumn: true},
		{err: &pgconn.PgError{Code: "x"}, code: "x"},
	} {
		if got := Of(c.err); got != c.code {
			t.Errorf("Of(%v) = %q, want %q", c.err, got, c.code)
		}
		if got := Class(c.err); got != c.class {
			t.Errorf("Class(%v) = %q, want %q", c.err, got, c.class)
		}
		if got := ConnectionEnded(c.err); got != c.connectionEnded {
			t.Errorf("ConnectionEnded(%v) = %v", c.err, got)
		}
		if got := NoTable(c.err); got != c.noTable {
			t.Errorf("NoTable(%v) = %v", c.err, got)
		}
		if got := NoColumn(c.err); got != c.noColumn {
			t.Errorf("NoColumn(%v) = %v", c.err, got)
		}
	}
}
