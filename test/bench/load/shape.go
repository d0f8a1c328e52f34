package load

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

// Shape is a kind of request.
type Shape string

// The shapes. All but Deltas are one notification of Nylas's API v3 each.
const (
	Usual  Shape = "usual"  // a message of 1.2 KB
	Mail   Shape = "mail"   // one with 20 KB of HTML
	Large  Shape = "large"  // one with 1 MB of HTML
	Gzip   Shape = "gzip"   // the usual one, compressed, and signed as it travels
	Deltas Shape = "deltas" // a batch of 100 of the API v2
)

// DeltasEach is the number of deliveries in one request of Deltas.
const DeltasEach = 100

// The marks that are replaced in each request, of the same length as their values: a signature has 64 characters, a
// tenant 36.
const (
	idMark     = "\x01id-of-the-notification----"
	tenantMark = "\x02tenant-of-the-notification-with-36-"
	signMark   = "\x03signature-of-the-body-in-hex---" + "--------------------------------"
)

func (s Shape) body(application string, tenants []string) (string, error) {
	switch s {
	case Usual, Gzip:
		return notification(application, `Hello,<br><br>please find the invoice for August attached.<br><br>Kind regards`, 1200), nil
	case Mail:
		return notification(application, html(19_000), 20_000), nil
	case Large:
		return notification(application, html(999_000), 1_000_000), nil
	case Deltas:
		var all []string
		for i := range DeltasEach {
			all = append(all, delta(tenants[i%len(tenants)]))
		}
		return `{"deltas":[` + strings.Join(all, ",") + `]}`, nil
	default:
		return "", fmt.Errorf("unknown shape %q", s)
	}
}

// notification returns a message.created with this text, filled up to the size in its snippet.
func notification(application, text string, size int) string {
	const form = `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"%s",` +
		`"time":1723821985,"webhook_delivery_attempt":1,"data":{"application_id":"%s","object":{"attachments":[` +
		`{"content_disposition":"attachment","content_type":"application/pdf","filename":"invoice.pdf",` +
		`"grant_id":"%s","id":"v0:aW52b2ljZS5wZGY=:YXBwbGljYXRpb24vcGRm:81231","is_inline":false,"size":81231}],` +
		`"bcc":[],"body":"<div dir=\"ltr\">%s</div>","cc":[{"email":"books@example.com","name":"Books"}],` +
		`"created_at":1723821981,"date":1723821981,"folders":["UNREAD","CATEGORY_PERSONAL","INBOX"],` +
		`"from":[{"email":"billing@example.org","name":"Billing"}],"grant_id":"%[3]s","id":"1915c5d0b7f4a1e2",` +
		`"object":"message","reply_to":[],"snippet":"%[5]s","starred":false,` +
		`"subject":"Invoice 2024-0817","thread_id":"1915c5d0b7f4a1e2","to":[{"email":"ap@example.com",` +
		`"name":"Accounts payable"}],"unread":true}}}`
	plain := fmt.Sprintf(form, idMark, application, tenantMark, text, "")
	snippet := strings.Repeat("Hello, please find it attached. ", size/30)
	return fmt.Sprintf(form, idMark, application, tenantMark, text, snippet[:max(size-len(plain), 0)])
}

// html returns mail as programs write it: repeated markup with words in between.
func html(size int) string {
	words := strings.Fields(`invoice payment August shipment order number customer please attached total amount due
		thank you reply account statement address delivery item quantity price tax discount balance meeting`)
	var b strings.Builder
	for n := uint64(1); b.Len() < size; {
		b.WriteString(`<tr><td style=\"padding:4px 8px;font-family:Arial,sans-serif\">`)
		for range 6 {
			n = n*6364136223846793005 + 1442695040888963407 // Knuth's generator: the same text every time
			b.WriteString(words[n>>33%uint64(len(words))])
			fmt.Fprintf(&b, " %d ", n>>54)
		}
		b.WriteString(`</td></tr>\r\n`)
	}
	return b.String()
}

func delta(account string) string {
	return fmt.Sprintf(`{"date":1723821985,"object":"message","type":"message.created","object_data":{`+
		`"id":"%s","object":"message","account_id":"%s","namespace_id":"%[2]s","attributes":{`+
		`"thread_id":"5ipyqr5fnv7qv3xbu9rxwq0dz","received_date":1723821981},"metadata":null}}`, idMark, account)
}

// compressed returns the body as gzip.
func compressed(z *gzip.Writer, out *bytes.Buffer, body []byte) ([]byte, error) {
	out.Reset()
	z.Reset(out)
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
