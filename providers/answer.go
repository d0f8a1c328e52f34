package providers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"webhook-gateway/jobs"
)

// requestState is a request on its way to its answer, and what its log line says.
type requestState struct {
	c        echo.Context
	provider string
	arrived  time.Time
	deadline time.Time // the latest time to answer; set once the body is whole
	target   Target
	body     []byte // what was read of it
	intake   intake // what the budget is charged for it
	bytes    int
	verifier jobs.Verifier // once verified
	request  *Request      // nil for a handshake
	items    []Item
	endings  []Ending
	note     string
	trouble  error // why its deliveries could not be settled, if known
	// turnedAway: the deliveries of the request were not looked at.
	turnedAway bool
}

// settleContext bounds everything that the vendor waits for. It ends at the deadline, not when the vendor hangs up.
func (x *requestState) settleContext() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.WithoutCancel(x.c.Request().Context()), x.deadline)
}

// retryAfter is the Retry-After of a 503, in seconds. Vendors follow their own schedules; proxies may heed it.
const retryAfter = "1"

// refuse is the one place that turns the reason for a refusal into a status. A status tells the vendor what to do:
// 401 do not repeat, 503 try again. It is never 500, which Nylas does not repeat.
func (r *Receiver) refuse(x *requestState, err error) error {
	status, reason := http.StatusServiceUnavailable, rejectedUnconfirmed
	switch {
	case errors.Is(err, ErrUnsigned):
		status, reason = http.StatusUnauthorized, rejectedUnsigned
	case errors.Is(err, ErrStale):
		status, reason = http.StatusUnauthorized, rejectedStale
	case errors.Is(err, errMismatch):
		status, reason = http.StatusUnauthorized, rejectedMismatch
	case errors.Is(err, errTooLarge):
		status, reason = http.StatusRequestEntityTooLarge, rejectedTooLarge
	case errors.Is(err, errSlow):
		status, reason = http.StatusRequestTimeout, rejectedSlow
	case errors.Is(err, errBroken):
		status, reason = http.StatusBadRequest, rejectedBroken
	case errors.Is(err, errOverBudget):
		reason = rejectedOverloaded
	case errors.Is(err, errNoSecret):
		reason = rejectedNoSecret
	}
	r.metrics.rejected(x.provider, reason)
	x.note = string(reason)
	return r.answer(x, status, outcomeRejected, "")
}

// handshake answers a vendor's check of a URL with the text it asked for.
func (r *Receiver) handshake(x *requestState, text string) error {
	r.metrics.handshake(x.provider)
	return r.answer(x, http.StatusOK, outcomeHandshake, text)
}

// noDelivery refuses a signed check of the URL that has no challenge to answer. A repeat would not change that, and
// nothing of it is kept.
func (r *Receiver) noDelivery(x *requestState) error {
	x.note, x.turnedAway = "a check of the URL without a challenge", true
	return r.answer(x, http.StatusBadRequest, outcomeRejected, "")
}

// unsettled asks the vendor to send the request again.
func (r *Receiver) unsettled(x *requestState, note string) error {
	x.note = note
	return r.answer(x, http.StatusServiceUnavailable, outcomeFailed, "")
}

// ack acknowledges the request. The body is empty: Slack shows a body to people.
func (r *Receiver) ack(x *requestState) error {
	outcome := outcomeDropped
	for _, ending := range x.endings {
		if ending.Dropped == "" {
			outcome = outcomeAccepted
		}
	}
	return r.answer(x, http.StatusOK, outcome, "")
}

// answer writes the response, then observes and logs it.
func (r *Receiver) answer(x *requestState, status int, out outcome, text string) error {
	if x.intake.partial {
		giveUp(x.c)
	}
	if status == http.StatusServiceUnavailable {
		x.c.Response().Header().Set("Retry-After", retryAfter)
	}
	// A failed write means that the vendor hung up.
	if text == "" {
		_ = x.c.NoContent(status)
	} else {
		x.c.Response().Header().Set("X-Content-Type-Options", "nosniff")
		_ = x.c.String(status, text)
	}
	took := time.Since(x.arrived)
	r.metrics.answered(x.provider, out, status, took)
	r.logLine(x, status, out, took)
	if r.observer != nil {
		r.observe(x, status, out, text)
	}
	if x.intake.cut {
		panic(http.ErrAbortHandler) // otherwise the connection stays open for a while
	}
	return nil
}

// logLine writes the one line of a request. Its only text from a body is the delivery's id. It avoids reflection and
// slog's helpers, which look up the caller of each line: for a duplicate both would cost more than the rest of the
// line.
func (r *Receiver) logLine(x *requestState, status int, out outcome, took time.Duration) {
	ctx, level := x.c.Request().Context(), slog.LevelInfo
	if out == outcomeFailed {
		level = slog.LevelWarn
	}
	if !r.log.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(time.Now(), level, "request", 0)
	line.AddAttrs(
		slog.String("provider", x.provider),
		slog.String("outcome", string(out)),
		slog.Int("status", status),
		slog.Int("bytes", x.bytes),
		slog.Int64("took_us", took.Microseconds()), // a float would cost as much as the rest of the line
	)
	line.AddAttrs(x.logAttrs()...)
	if out == outcomeRejected {
		line.AddAttrs(x.originAttrs()...)
	}
	_ = r.log.Handler().Handle(ctx, line) // slog ignores the error too
}

// originAttrs says where a rejected request came from.
func (x *requestState) originAttrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("path", pathOf(x.c)), slog.String("client", x.c.RealIP())}
	if x.request == nil {
		attrs = append(attrs, slog.String("request_id", uuid.Must(uuid.NewV7()).String()))
	}
	return attrs
}

// logAttrs returns the parts of a log line that only some requests have.
func (x *requestState) logAttrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 6)
	if x.target.Job != uuid.Nil {
		attrs = append(attrs, slog.String("job", x.target.Job.String()))
	}
	if x.target.Source != "" {
		attrs = append(attrs, slog.String("source", x.target.Source))
	}
	if x.note != "" {
		attrs = append(attrs, slog.String("note", x.note))
	}
	if x.trouble != nil {
		attrs = append(attrs, slog.String("err", x.trouble.Error()))
	}
	if x.request != nil {
		attrs = append(attrs, slog.String("request_id", x.request.ID.String()), slog.Int("deliveries", len(x.items)))
	}
	if len(x.items) == 1 && x.items[0].VendorID != "" {
		attrs = append(attrs, slog.String("delivery", head(x.items[0].VendorID, 200)))
	}
	if counts := dropsOf(x.endings); counts != nil {
		attrs = append(attrs, slog.GroupAttrs("drops", counts...))
	}
	return attrs
}

// closeAfter makes the server close the connection after the answer.
func closeAfter(c echo.Context) { c.Response().Header().Set("Connection", "close") }

// giveUp makes the server answer without waiting for the rest of the body, and close the connection soon after. What
// is on its way is still read, so that the client can read the answer.
func giveUp(c echo.Context) {
	closeAfter(c)
	setReadDeadline(c.Response(), time.Now().Add(500*time.Millisecond))
}

// statusOf is the status for an error that a handler returned.
func statusOf(err error) int {
	var he *echo.HTTPError
	if errors.As(err, &he) && (he.Code == http.StatusNotFound || he.Code == http.StatusMethodNotAllowed) {
		return he.Code
	}
	return http.StatusServiceUnavailable
}

func head(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// panicType returns a panic's type without its text, which may quote a request.
func panicType(p any) string { return fmt.Sprintf("%T", p) }

func stack() string { return string(debug.Stack()) }
