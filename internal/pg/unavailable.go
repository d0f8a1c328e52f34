package pg

import (
	"context"
	"errors"
)

// UnavailableError says that PostgreSQL cannot be connected to. Its text is safe to show, as Explain's is; the error
// behind it stays reachable.
type UnavailableError struct {
	text string
	err  error
}

func (e *UnavailableError) Error() string { return e.text }
func (e *UnavailableError) Unwrap() error { return e.err }

// Unavailable replaces an error of connecting, or of waiting in vain for a connection, by an UnavailableError. It returns
// any other error as it is.
func Unavailable(err error) error {
	const away = "PostgreSQL at DATABASE_URL does not answer: "
	var explained *UnavailableError
	if err == nil || errors.As(err, &explained) || errors.Is(err, ErrSettings) || errors.Is(err, ErrUnfit) {
		return err
	}
	reason := Explain(err)
	switch {
	case reason != "" && !Passing(err):
		return &UnavailableError{"PostgreSQL at DATABASE_URL refuses the connection: " + reason, err}
	case reason != "":
		return &UnavailableError{away + reason, err}
	case errors.Is(err, context.DeadlineExceeded):
		return &UnavailableError{away + err.Error(), err}
	default:
		return err
	}
}
