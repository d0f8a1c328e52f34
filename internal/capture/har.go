package capture

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"webhook-gateway/providers"
)

// The most that an archive may contain. Its other entries need no memory.
const (
	maxMessages = 10_000   // POST requests
	maxHeads    = 32 << 20 // bytes of their headers
	maxHeaders  = 500      // of a request
)

// harEntry holds the parts of an archive's entry that describe the request. HAR stores bodies only as text; some
// tools add an encoding for bytes.
type harEntry struct {
	StartedDateTime string
	Request         struct {
		Method, URL string
		Headers     json.RawMessage
		BodySize    *int
		PostData    *struct {
			Text, Encoding string
			Params         json.RawMessage
		}
	}
}

var (
	errNoHAR    = errors.New("read the HAR file: it is not JSON of that form")
	errManyPOST = fmt.Errorf("read the HAR file: it holds more than %d POST requests, or %d MiB of their headers; split it", maxMessages, maxHeads>>20)
)

// ReadHAR reads the POST requests of an HTTP archive in order, one entry at a time. HAR stores a body as text. A body
// that is compressed or not text (unless in base64), or whose length differs from the recorded one, is an error that
// names its entry. Only this check makes captures from HAR byte-exact.
func ReadHAR(in io.Reader) ([]*Message, error) {
	var list []*Message
	var errs []error
	heads := 0
	dec := json.NewDecoder(in)
	err := eachEntry(dec, func(n int) error {
		var e harEntry
		if err := dec.Decode(&e); err != nil {
			return err
		}
		if e.Request.Method != "POST" {
			return nil
		}
		if heads += len(e.Request.Headers); len(list) == maxMessages || heads > maxHeads {
			return errManyPOST
		}
		m, err := e.message()
		if err != nil && len(errs) <= maxProblems {
			errs = append(errs, fmt.Errorf("entry %d: %w", n, err))
		}
		list = append(list, m)
		return nil
	})
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errNoHAR // something follows the document
		}
	}
	switch {
	case errors.Is(err, errManyPOST):
		return nil, errManyPOST
	case isJSON(err):
		return nil, errNoHAR
	case err != nil:
		return nil, fmt.Errorf("read the HAR file: %w", err)
	}
	if len(list) == 0 {
		errs = append(errs, errors.New("it holds no POST request"))
	}
	if err := joinFew(errs); err != nil {
		return nil, fmt.Errorf("read the HAR file: %w", err)
	}
	return list, nil
}

// isJSON reports whether an error is about the content, and not about reading it.
func isJSON(err error) bool {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	return errors.Is(err, errNoHAR) || errors.As(err, &syntax) || errors.As(err, &wrong) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// eachEntry goes to log.entries, and calls decode for each entry, counted from 1.
func eachEntry(dec *json.Decoder, decode func(n int) error) error {
	n := 0
	return members(dec, "log", func() error {
		return members(dec, "entries", func() error {
			if t, err := dec.Token(); err != nil || t != json.Delim('[') {
				return orNoHAR(err)
			}
			for dec.More() {
				n++
				if err := decode(n); err != nil {
					return err
				}
			}
			_, err := dec.Token()
			return err
		})
	})
}

// members reads an object to its end, and calls decode for the members of that name. It skips the others.
func members(dec *json.Decoder, name string, decode func() error) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return orNoHAR(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if text, ok := key.(string); ok && strings.EqualFold(text, name) {
			err = decode()
		} else {
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// orNoHAR returns the decoder's error, or errNoHAR if it has none.
func orNoHAR(err error) error {
	if err != nil {
		return err
	}
	return errNoHAR
}

// message turns a POST request into a message.
func (e *harEntry) message() (*Message, error) {
	m := &Message{Method: e.Request.Method}
	m.At, _ = time.Parse(time.RFC3339Nano, e.StartedDateTime)
	u, err := url.Parse(e.Request.URL)
	if err != nil {
		return m, errors.New("its URL cannot be read")
	}
	m.Target, m.Host = u.RequestURI(), u.Host
	if m.Headers, err = harHeaders(e.Request.Headers); err != nil {
		return m, err
	}
	if data := e.Request.PostData; data != nil {
		if m.Body, err = harBody(m, data.Text, data.Encoding, hasElements(data.Params)); err != nil {
			return m, err
		}
	}
	if size := e.Request.BodySize; size != nil && *size >= 0 && *size != len(m.Body) {
		return m, fmt.Errorf("the text of its body has %d bytes and %d were sent: the archive changed it", len(m.Body), *size)
	}
	return m, nil
}

// harHeaders reads a request's headers, without HTTP/2's own. It bounds their text before it parses it: a few bytes
// of text become a much larger header.
func harHeaders(raw json.RawMessage) ([]Header, error) {
	var all []struct{ Name, Value string }
	if len(raw) > maxHead {
		return nil, fmt.Errorf("its headers have more than %d bytes", maxHead)
	}
	if len(raw) > 0 && json.Unmarshal(raw, &all) != nil {
		return nil, errors.New("its headers cannot be read")
	}
	if len(all) > maxHeaders {
		return nil, fmt.Errorf("it has more than %d headers", maxHeaders)
	}
	var list []Header
	for _, h := range all {
		if !strings.HasPrefix(h.Name, ":") {
			list = append(list, Header{h.Name, h.Value})
		}
	}
	return list, nil
}

// hasElements reports whether a JSON value is a list with elements.
func hasElements(list json.RawMessage) bool {
	inner, isList := bytes.CutPrefix(bytes.TrimSpace(list), []byte("["))
	return isList && !bytes.HasPrefix(bytes.TrimSpace(inner), []byte("]"))
}

func harBody(m *Message, text, encoding string, fields bool) ([]byte, error) {
	switch encoding {
	case "base64":
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, errors.New("its body is not base64")
		}
		return body, nil
	case "":
	default:
		return nil, fmt.Errorf("its body is encoded as %.20q, which is not known here", encoding)
	}
	if text == "" && fields {
		return nil, errors.New("the archive has the fields of its form and not the text, which can be written in several ways")
	}
	if providers.Compressed(m.value("Content-Encoding")) {
		return nil, errors.New("its body is compressed, which HAR cannot hold; record a raw HTTP message")
	}
	if strings.ContainsRune(text, '\uFFFD') {
		return nil, errors.New("its body was no text, which HAR cannot hold; record a raw HTTP message")
	}
	return []byte(text), nil
}
