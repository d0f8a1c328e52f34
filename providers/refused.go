package providers

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// refusal is why a request did not reach a provider's route, as a label.
type refusal string

const (
	refusedPath     refusal = "path"     // no such path, or it takes another method
	refusedHeaders  refusal = "headers"  // too large
	refusedProtocol refusal = "protocol" // HTTP/2 without TLS, TLS, or not HTTP
)

// refusals counts the requests that did not reach a provider's route. Anybody can cause them, so one is logged at
// most every refusalsEvery.
type refusals struct {
	counts *prometheus.CounterVec
	log    *slog.Logger

	mu       sync.Mutex
	next     time.Time // when the next line may be written
	unlogged int       // refusals since the last line
}

const refusalsEvery = time.Second

func newRefusals(reg prometheus.Registerer, log *slog.Logger) *refusals {
	r := &refusals{log: log, counts: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_requests_refused_total",
		Help: "Requests that reached no provider's route: an unknown path or method, headers over 20 KiB, no HTTP/1.",
	}, []string{"reason"})}
	for _, reason := range []refusal{refusedPath, refusedHeaders, refusedProtocol} {
		r.counts.WithLabelValues(string(reason))
	}
	return r
}

// note counts a refusal, and logs it with these attributes unless another one was logged a moment ago.
func (r *refusals) note(reason refusal, attrs ...any) {
	r.counts.WithLabelValues(string(reason)).Inc()
	r.mu.Lock()
	now := time.Now()
	if now.Before(r.next) {
		r.unlogged++
		r.mu.Unlock()
		return
	}
	unlogged := r.unlogged
	r.next, r.unlogged = now.Add(refusalsEvery), 0
	r.mu.Unlock()
	r.log.Info("request refused", append([]any{"reason", string(reason), "unlogged", unlogged}, attrs...)...)
}

// answerError answers what no handler did: an unknown path, a wrong method, HTTP/2 without TLS, or a fault of ours.
func (r *Receiver) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	if c.Request().ContentLength != 0 {
		giveUp(c)
	}
	// echo lists OPTIONS for every route, which no route takes.
	if allow := c.Response().Header().Get(echo.HeaderAllow); allow != "" {
		c.Response().Header().Set(echo.HeaderAllow, strings.TrimPrefix(allow, "OPTIONS, "))
	}
	status, reason := statusOf(err), refusedPath
	if c.Request().ProtoMajor > 1 {
		status, reason = http.StatusHTTPVersionNotSupported, refusedProtocol
		closeAfter(c) // what follows is not HTTP/1 either
	}
	switch status {
	case http.StatusServiceUnavailable:
		c.Response().Header().Set("Retry-After", retryAfter)
	default:
		r.refusals.note(reason, "status", status, "method", head(c.Request().Method, 20), "path", pathOf(c),
			"client", c.RealIP(), "request_id", uuid.Must(uuid.NewV7()).String())
	}
	_ = c.NoContent(status)
}

// pathOf is a request's path without its query, short and ASCII only, as the log needs it.
func pathOf(c echo.Context) string { return head(c.Request().URL.EscapedPath(), 200) }

// Watch wraps a listener so that its connections count what the HTTP server refuses before any handler.
func (r *Receiver) Watch(l net.Listener) net.Listener { return &watched{l, r.refusals} }

type watched struct {
	net.Listener
	refusals *refusals
}

// Accept implements net.Listener.
func (w *watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{conn, w.refusals}, nil
}

type watchedConn struct {
	net.Conn
	refusals *refusals
}

// Write looks at the first bytes of an answer.
func (c *watchedConn) Write(answer []byte) (int, error) {
	if reason := refusedByServer(answer); reason != "" {
		peer, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		c.refusals.note(reason, "client", peer, "request_id", uuid.Must(uuid.NewV7()).String())
	}
	return c.Conn.Write(answer)
}

// CloseWrite is how the server ends the connection after a refusal, so that the client can read the answer.
func (c *watchedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// refusedByServer returns why the HTTP server refused a request before any handler; empty if it did not. A refusal
// has exactly these headers; a handler's answer also has a date.
func refusedByServer(answer []byte) refusal {
	const version = "HTTP/1.1 "
	if len(answer) <= len(version) || answer[len(version)] == '2' || string(answer[:len(version)]) != version {
		return ""
	}
	_, headers, _ := bytes.Cut(answer, []byte("\r\n"))
	if !bytes.HasPrefix(headers, []byte("Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")) {
		return ""
	}
	if bytes.HasPrefix(answer[len(version):], []byte("431")) {
		return refusedHeaders
	}
	return refusedProtocol
}
