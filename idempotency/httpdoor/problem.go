package httpdoor

import (
	"encoding/json"
	"net/http"
)

// code is a machine-readable name of a refusal.
type code string

const (
	badKey      code = "BAD_KEY"
	unreadable  code = "BAD_BODY"
	tooLong     code = "BODY_TOO_LARGE"
	inFlight    code = "IN_FLIGHT"
	mismatch    code = "KEY_MISMATCH"
	unavailable code = "UNAVAILABLE"
	uncertain   code = "UNCERTAIN"
	lostAnswer  code = "ANSWER_NOT_KEPT"
	// misconfigured: the server is at fault, and a retry does not help.
	misconfigured code = "MISCONFIGURED"
)

// meaning returns the status and the text of a refusal.
func (c code) meaning() (status int, title string) {
	switch c {
	case badKey:
		return http.StatusBadRequest, "the request needs one well-formed Idempotency-Key"
	case unreadable:
		return http.StatusBadRequest, "the request's body cannot be read"
	case tooLong:
		return http.StatusRequestEntityTooLarge, "the request's body is too large"
	case inFlight:
		return http.StatusConflict, "the first request with this key is still running, retry later"
	case mismatch:
		return http.StatusUnprocessableEntity, "the key was used for another request, do not retry"
	case lostAnswer:
		return http.StatusGone, "the request was executed, but its answer was not kept"
	case uncertain:
		return http.StatusServiceUnavailable, "it is unknown whether it was done, retry with the same key"
	case misconfigured:
		return http.StatusInternalServerError, "nothing was done, the server is not configured for idempotency keys"
	default:
		return http.StatusServiceUnavailable, "nothing was done, retry later"
	}
}

// problem is an answer of the door itself, as a problem document (RFC 9457).
type problem struct {
	Status int    `json:"status"`
	Code   code   `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
}

func (d *Door) refuse(w http.ResponseWriter, c code, detail string) {
	if c == badKey && d.Help != "" {
		w.Header().Set("Link", "<"+d.Help+`>; rel="help"`)
	}
	status, title := c.meaning()
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem{status, c, title, detail}) // the client may have gone
}
