package httpdoor

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"webhook-gateway/idempotency"
)

// kept reports whether a replay repeats the header of an operation's answer. Headers of the connection or the moment
// are new for each answer, and a session is not part of an answer.
func kept(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Date", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade",
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection":
		return false
	}
	return true
}

// stored is an answer as the key's row holds it.
type stored struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Text   string      `json:"text,omitempty"`  // a body that is UTF-8
	Bytes  []byte      `json:"bytes,omitempty"` // any other
	// Omitted: the body was too long for the row. The outcome of the operation is still known.
	Omitted bool `json:"omitted,omitempty"`
}

func (s stored) body() []byte {
	if s.Bytes != nil {
		return s.Bytes
	}
	return []byte(s.Text)
}

var errNotAnAnswer = errors.New("stored response is not an HTTP answer")

func readRecord(a idempotency.Answer) (stored, error) {
	var s stored
	if err := json.Unmarshal(a.Response, &s); err != nil || s.Status < 200 || s.Status > 999 {
		return stored{}, errNotAnAnswer
	}
	return s, nil
}

// recorder holds an answer back. It passes on a body that is too long for a row as it is written.
type recorder struct {
	to     http.ResponseWriter
	header http.Header
	code   int
	body   bytes.Buffer
	whole  bool // pass nothing on before send, however long it is
	passed bool // the head was sent
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. It does not pass informational answers on.
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
	if r.body.Len() == 0 && r.header.Get("Content-Type") == "" && r.header.Get("Content-Encoding") == "" && len(p) > 0 {
		r.header.Set("Content-Type", http.DetectContentType(p)) // as net/http would
	}
	r.body.Write(p)
	if !r.whole && r.body.Len() > idempotency.MaxResponse {
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

// record returns the answer as the row keeps it.
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
	text := marshal(s)
	if len(text) > idempotency.MaxResponse {
		text = marshal(stored{Status: s.Status, Omitted: true})
	}
	return text
}

// marshal encodes JSON without escaping HTML characters.
func marshal(s stored) json.RawMessage {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // cannot fail for strings, bytes and numbers
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// send writes the answer to the client.
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
