package httpdoor

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"webhook-gateway/idempotency"
)

// kept reports whether a replay repeats the header. Set-Cookie it does not: a session is not an answer.
func kept(name string) bool {
	switch name {
	case "Content-Type", "Content-Language", "Content-Location", "Content-Disposition", "Location", "Link", "Etag", "Last-Modified":
		return true
	}
	return false
}

// stored is an answer as it lies in the key's row.
type stored struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Text   string      `json:"text,omitempty"`  // a body that is UTF-8
	Bytes  []byte      `json:"bytes,omitempty"` // any other
	// Omitted: the body was too long for the row. What became of the operation is known all the same.
	Omitted bool `json:"omitted,omitempty"`
}

func (s stored) body() []byte {
	if s.Bytes != nil {
		return s.Bytes
	}
	return []byte(s.Text)
}

var errNotAnAnswer = errors.New("stored response is no HTTP answer")

func readRecord(a idempotency.Answer) (stored, error) {
	var s stored
	if err := json.Unmarshal(a.Response, &s); err != nil || s.Status < 200 || s.Status > 999 {
		return stored{}, errNotAnAnswer
	}
	return s, nil
}

// recorder holds an answer back. A body that is longer than a row can keep is passed on as it comes.
type recorder struct {
	to     http.ResponseWriter
	header http.Header
	code   int
	body   bytes.Buffer
	passed bool // the head was sent
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. Informational answers are not passed on.
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 {
		r.code = code
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.passed {
		return r.to.Write(p)
	}
	if r.body.Len() == 0 && r.header.Get("Content-Type") == "" && len(p) > 0 {
		r.header.Set("Content-Type", http.DetectContentType(p)) // as net/http would
	}
	r.body.Write(p)
	if r.body.Len() > idempotency.MaxResponse {
		r.send()
	}
	return len(p), nil
}

func (r *recorder) status() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}

// record is the answer as the row keeps it.
func (r *recorder) record() json.RawMessage {
	s := stored{Status: r.status(), Header: http.Header{}}
	for name, values := range r.header {
		if kept(http.CanonicalHeaderKey(name)) {
			s.Header[name] = values
		}
	}
	switch body := r.body.Bytes(); {
	case r.passed:
		s.Omitted = true
	case utf8.Valid(body):
		s.Text = string(body)
	default:
		s.Bytes = body
	}
	text, err := json.Marshal(s)
	if err == nil && len(text) > idempotency.MaxResponse {
		s.Text, s.Bytes, s.Omitted = "", nil, true
		text, err = json.Marshal(s)
	}
	if err == nil && len(text) > idempotency.MaxResponse {
		s.Header = nil
		text, err = json.Marshal(s)
	}
	if err != nil {
		return nil
	}
	return text
}

// send gives the client the answer.
func (r *recorder) send() {
	if r.passed {
		return
	}
	r.passed = true
	for name, values := range r.header {
		r.to.Header()[name] = values
	}
	r.to.WriteHeader(r.status())
	_, _ = r.to.Write(r.body.Bytes()) // the client may have gone
	r.body.Reset()
}
