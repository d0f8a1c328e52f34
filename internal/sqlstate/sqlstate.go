// Package sqlstate reads the five-character code of an error from PostgreSQL. Unlike the error's text, the code never
// quotes data.
package sqlstate

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Of returns the code of an error; "" when the error is not from PostgreSQL.
func Of(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// Class returns the first two characters of an error's code, which group it; "" when it has none.
func Class(err error) string {
	if code := Of(err); len(code) == 5 {
		return code[:2]
	}
	return ""
}

// ConnectionEnded reports whether PostgreSQL, or a pooler before it, ended the connection with the error: class 08,
// or a shutdown. The running statement may or may not have been committed.
func ConnectionEnded(err error) bool {
	return Class(err) == "08" || strings.HasPrefix(Of(err), "57P")
}

// NoTable reports whether a table or its schema is missing.
func NoTable(err error) bool { return Of(err) == "42P01" || Of(err) == "3F000" }

// NoColumn reports whether a column is missing.
func NoColumn(err error) bool { return Of(err) == "42703" }
