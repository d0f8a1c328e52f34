package capture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Message is a request as it was recorded: nothing is removed from it, and its source or job is not known.
type Message struct {
	Method  string
	Target  string // path and query
	Host    string
	Headers []Header
	// Exact says that the order and the letter case of the headers are those of the wire.
	Exact bool
	Body  []byte
	At    time.Time // zero: not recorded
}

// maxHead bounds the lines of a message before its body.
const maxHead = 256 << 10

// ReadMessage reads one raw HTTP/1.1 request: the request line, the headers ended by LF or CRLF, an empty line, and
// then the body to its last byte. Chunks are joined; a content encoding stays. A body whose length differs from
// Content-Length is an error: an editor that adds a newline changes what was signed.
func ReadMessage(raw []byte) (*Message, error) {
	m, err := readMessage(raw)
	if err != nil {
		return nil, fmt.Errorf("read the HTTP message: %w", err)
	}
	return m, nil
}

func readMessage(raw []byte) (*Message, error) {
	in := bufio.NewReaderSize(bytes.NewReader(raw), maxHead)
	first, err := line(in)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(first, " ")
	if len(parts) < 2 || len(parts) > 3 || !headerName.MatchString(parts[0]) ||
		len(parts) == 3 && !strings.HasPrefix(parts[2], "HTTP/") {
		return nil, errors.New("its first line is not METHOD PATH HTTP/1.1")
	}
	m := &Message{Method: parts[0], Target: parts[1], Exact: true}
	if u, err := url.Parse(parts[1]); err == nil && u.Host != "" { // the form for a proxy
		m.Target, m.Host = u.RequestURI(), u.Host
	}
	for {
		text, err := line(in)
		if err != nil {
			return nil, fmt.Errorf("%w: no empty line behind the headers", err)
		}
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		h := Header{name, strings.Trim(value, " \t")}
		if !ok || !h.valid() {
			return nil, fmt.Errorf("line %d of the headers is not a header", len(m.Headers)+1)
		}
		if len(m.Headers) == maxHeaders {
			return nil, fmt.Errorf("it has more than %d headers", maxHeaders)
		}
		m.Headers = append(m.Headers, h)
		if strings.EqualFold(name, "Host") {
			m.Host = h[1]
		}
	}
	m.Body, err = m.readBody(in)
	return m, err
}

func line(in *bufio.Reader) (string, error) {
	text, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errors.New("a line is too long")
	case err != nil:
		return "", errors.New("it ends before its headers do")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

func (m *Message) readBody(in *bufio.Reader) ([]byte, error) {
	if strings.EqualFold(m.value("Transfer-Encoding"), "chunked") {
		body, err := io.ReadAll(httputil.NewChunkedReader(in))
		if err != nil {
			return nil, fmt.Errorf("join the chunks of the body: %w", err)
		}
		return body, nil
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	length := m.value("Content-Length")
	if length == "" {
		return body, nil
	}
	if want, err := strconv.Atoi(length); err != nil || want != len(body) {
		return nil, fmt.Errorf("the body has %d bytes and Content-Length says %.20s: was the file edited, or cut?", len(body), length)
	}
	return body, nil
}

func (m *Message) value(name string) string {
	for _, h := range m.Headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}
