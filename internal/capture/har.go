package capture

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// har is as much of an HTTP archive as tells of requests. The format knows bodies as text alone; encoding
// is what some tools add for bytes.
type har struct {
	Log struct {
		Entries []struct {
			StartedDateTime string
			Request         struct {
				Method, URL, HTTPVersion string
				Headers                  []struct{ Name, Value string }
				BodySize                 *int
				PostData                 *struct {
					Text, Encoding string
					Params         []struct{ Name string }
				}
			}
		}
	}
}

// ReadHAR reads the POST requests of an HTTP archive, in its order. HAR keeps a body as text: one that is
// compressed or no text, unless the tool wrote it in base64, and one whose length is not the recorded one,
// is an error that names its entry. Captures made of HAR are not byte-exact by nature, only by this check.
func ReadHAR(raw []byte) ([]*Message, error) {
	var archive har
	if err := json.Unmarshal(raw, &archive); err != nil {
		return nil, errors.New("read the HAR file: it is no JSON of that form")
	}
	var list []*Message
	var errs []error
	for i, e := range archive.Log.Entries {
		if e.Request.Method != "POST" {
			continue
		}
		m := &Message{Method: e.Request.Method}
		m.At, _ = time.Parse(time.RFC3339Nano, e.StartedDateTime)
		u, err := url.Parse(e.Request.URL)
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %d: its URL cannot be read", i+1))
			continue
		}
		m.Target, m.Host = u.RequestURI(), u.Host
		for _, h := range e.Request.Headers {
			if !strings.HasPrefix(h.Name, ":") { // HTTP/2's own
				m.Headers = append(m.Headers, Header{h.Name, h.Value})
			}
		}
		if data := e.Request.PostData; data != nil {
			if m.Body, err = harBody(m, data.Text, data.Encoding, len(data.Params) > 0); err != nil {
				errs = append(errs, fmt.Errorf("entry %d: %w", i+1, err))
			}
		}
		if size := e.Request.BodySize; err == nil && size != nil && *size >= 0 && *size != len(m.Body) {
			errs = append(errs, fmt.Errorf("entry %d: the text of its body has %d bytes and %d were sent: the archive changed it", i+1, len(m.Body), *size))
		}
		list = append(list, m)
	}
	if len(list) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("it holds no POST request"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read the HAR file: %w", err)
	}
	return list, nil
}

func harBody(m *Message, text, encoding string, fields bool) ([]byte, error) {
	switch encoding {
	case "base64":
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, errors.New("its body is no base64")
		}
		return body, nil
	case "":
	default:
		return nil, fmt.Errorf("its body is encoded as %.20q, which is not known here", encoding)
	}
	if text == "" && fields {
		return nil, errors.New("the archive has the fields of its form and not the text, which can be written in several ways")
	}
	if m.value("Content-Encoding") != "" && !strings.EqualFold(m.value("Content-Encoding"), "identity") {
		return nil, errors.New("its body is compressed, which HAR cannot hold; record a raw HTTP message")
	}
	if strings.ContainsRune(text, '\uFFFD') {
		return nil, errors.New("its body was no text, which HAR cannot hold; record a raw HTTP message")
	}
	return []byte(text), nil
}
