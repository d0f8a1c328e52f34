package pg

import (
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/sqlstate"
)

// Passing reports whether an error of connecting or of a statement may pass without a change of settings: the
// server is away, starts, or is full. A wrong password, user or database does not pass, nor does a certificate.
func Passing(err error) bool {
	var certificate *tls.CertificateVerificationError
	var connecting *pgconn.ConnectError
	var network *net.OpError
	switch {
	case errors.Is(err, ErrSettings), errors.Is(err, ErrUnfit), errors.As(err, &certificate):
		return false
	case sqlstate.Of(err) != "":
		// Connection exceptions (a pooler says so of a server that is away), no resources, operator intervention,
		// system errors.
		switch sqlstate.Class(err) {
		case "08", "53", "57", "58":
			return true
		}
		return false
	default:
		return errors.As(err, &connecting) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
	}
}
