package doctor

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/form"
	"webhook-gateway/internal/gunzip"
)

const (
	maxRewritten = 1 << 20  // largest body that is rewritten in many ways
	maxInflated  = 16 << 20 // largest inflated body
)

// bodiesLike returns the bodies that may have been signed, if a change of one of them gave the captured body. The
// likeliest come first.
func bodiesLike(c *capture.Capture) []variant {
	body := c.Content
	var list []variant
	seen := map[string]bool{string(body): true}
	add := func(code Code, says string, text []byte, ok bool) {
		if ok && !seen[string(text)] {
			seen[string(text)] = true
			list = append(list, variant{code, says, text})
		}
	}
	newlines(add, body)
	for _, v := range rewritten(body) {
		add(Reencoded, v.says, v.text, true)
	}
	for _, v := range forms(body) {
		add(Reencoded, v.says, v.text, true)
	}
	compression(add, body)
	transports(add, body)
	characters(add, body)
	return list
}

type adding func(code Code, says string, text []byte, ok bool)

func newlines(add adding, body []byte) {
	for _, end := range []string{"\r\n", "\n"} {
		bare, found := bytes.CutSuffix(body, []byte(end))
		add(NewlineAdded, "a line end was added behind the body", bare, found)
		add(NewlineRemoved, "the line end behind the body was taken away", append(bytes.Clone(body), end...), true)
	}
	add(Blanks, "blanks were added around the body", bytes.TrimSpace(body), true)
	unix := bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	add(LineEnds, "line ends were changed from LF to CRLF", unix, true)
	add(LineEnds, "line ends were changed from CRLF to LF", bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")), true)
	mark := []byte("\xef\xbb\xbf")
	bare, found := bytes.CutPrefix(body, mark)
	add(ByteOrderMark, "a byte order mark was added before the body", bare, found)
	add(ByteOrderMark, "the byte order mark before the body was taken away", append(mark, body...), true)
}

// forms returns a form's fields in other spellings.
func forms(body []byte) []variant {
	text := string(body)
	if len(text) > maxRewritten || !strings.Contains(text, "=") || strings.ContainsAny(text, "{\n") && !strings.Contains(text, "payload=") {
		return nil
	}
	escape := regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	list := []variant{
		{says: "the form was written anew: its blanks were + and are %20", text: []byte(strings.ReplaceAll(text, "%20", "+"))},
		{says: "the form was written anew: its blanks were %20 and are +", text: []byte(strings.ReplaceAll(text, "+", "%20"))},
		{says: "the form was written anew: its percent escapes were in upper case", text: []byte(escape.ReplaceAllStringFunc(text, strings.ToUpper))},
		{says: "the form was written anew: its percent escapes were in lower case", text: []byte(escape.ReplaceAllStringFunc(text, strings.ToLower))},
	}
	var encoded, spaced []string
	for _, field := range strings.Split(text, "&") {
		name, raw, _ := strings.Cut(field, "=")
		value := form.Unescape([]byte(raw))
		encoded = append(encoded, name+"="+url.QueryEscape(value))
		spaced = append(spaced, name+"="+strings.ReplaceAll(url.QueryEscape(value), "+", "%20"))
	}
	return append(list,
		variant{says: "the form was written anew: the values were escaped, and are not", text: []byte(strings.Join(encoded, "&"))},
		variant{says: "the form was written anew: the values were escaped with %20 for blanks", text: []byte(strings.Join(spaced, "&"))})
}

func compression(add adding, body []byte) {
	if gunzip.Is(body) {
		plain, err := gunzip.Inflate(body, maxInflated)
		add(Compressed, "the body was compressed after it was signed: the plain bytes are what was signed", plain, err == nil)
		return
	}
	if len(body) > maxRewritten {
		return
	}
	const says = "the body was inflated before it was verified: the compressed bytes are what was signed"
	for level := gzip.HuffmanOnly; level <= gzip.BestCompression; level++ {
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, level)
		if err != nil {
			continue
		}
		_, _ = z.Write(body) // a write to memory cannot fail
		if z.Close() != nil {
			continue
		}
		zipped := out.Bytes()
		for _, system := range []byte{255, 3, 0, 19} { // unknown, Unix, FAT, and what some tools write
			other := bytes.Clone(zipped)
			other[9] = system
			add(Inflated, says, other, true)
		}
	}
}

// transports undoes wrappings in which a body travels, when a tool has left one or removed one.
func transports(add adding, body []byte) {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(body)))
	add(BodyBase64, "the body was recorded in base64", decoded, err == nil && len(body) > 0)
	add(BodyBase64, "the body came in base64 and was decoded", []byte(base64.StdEncoding.EncodeToString(body)), len(body) <= maxRewritten)
	joined, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
	add(Chunked, "the chunks of the transfer encoding were left in the body", joined, err == nil)
	var inner string
	if json.Unmarshal(body, &inner) == nil {
		add(QuotedBody, "the body is a JSON string that holds the body", []byte(inner), true)
	}
	if quoted, err := json.Marshal(string(body)); err == nil && len(body) <= maxRewritten {
		add(QuotedBody, "the body was a JSON string, and its content was taken for it", quoted, true)
	}
	if bytes.HasPrefix(body, []byte("{")) && len(body) <= maxRewritten {
		add(PayloadAlone, "a form's field payload was taken for the body: the form is what was signed", []byte("payload="+url.QueryEscape(string(body))), true)
	}
}

// characters tries the body's characters in other character sets.
func characters(add adding, body []byte) {
	if len(body) > maxRewritten {
		return
	}
	latin := make([]byte, 0, len(body))
	narrow := true
	for _, r := range string(body) {
		if narrow = narrow && r < 0x100; narrow {
			latin = append(latin, byte(r))
		}
	}
	add(Charset, "the body was read as Latin-1 and written as UTF-8", latin, narrow)
	wide := make([]rune, len(body))
	for i, b := range body {
		wide[i] = rune(b)
	}
	add(Charset, "the body was read as UTF-8 and written as Latin-1", []byte(string(wide)), true)
}
