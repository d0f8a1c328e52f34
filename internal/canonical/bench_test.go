package canonical

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// notification is a body like Nylas's message.created, of about 1.2 kB.
const notification = `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"5SJs4Ue3CPU8KcBz0Ta1YW","time":1723821985,"webhook_delivery_attempt":1,"data":{"application_id":"7c5d4a3b-1a2b-4c3d-8e9f-001122334455","object":{"attachments":[{"content_disposition":"attachment; filename=\"invoice.pdf\"","content_type":"application/pdf","filename":"invoice.pdf","grant_id":"f0c1d2e3-4455-6677-8899-aabbccddeeff","id":"v0:aW52b2ljZS5wZGY=:81231","is_inline":false,"size":81231}],"bcc":[],"body":"<div dir=\"ltr\">Hello,<br>\u00e4 please find the invoice for August attached.<br><br>Kind regards<\/div>","cc":[{"email":"books@example.com","name":"Books"}],"created_at":1723821981,"date":1723821981,"folders":["UNREAD","CATEGORY_PERSONAL","INBOX"],"from":[{"email":"billing@example.org","name":"Billing"}],"grant_id":"f0c1d2e3-4455-6677-8899-aabbccddeeff","id":"1915c5d0b7f4a1e2","object":"message","reply_to":[],"snippet":"Hello, please find the invoice for August attached.","starred":false,"subject":"Invoice 2024-0817","thread_id":"1915c5d0b7f4a1e2","to":[{"email":"ap@example.com","name":"Accounts payable"}],"unread":true}}}`

func bodies() map[string][]byte {
	text := strings.Repeat(`<p class=\"x\">Some words of a mail, a bit of \u00fcml\u00e4ut,<\/p>\r\n`, 300)
	long := strings.Replace(notification, "Hello,<br>", text, 1)
	var wide strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&wide, `"k%05d":{"n":%d,"b":true,"s":["some text of a member","",null,-1.25e-7],"z":{"y":1,"x":2}},`, i*7919%9000, i)
	}
	return map[string][]byte{
		"1.2 kB":        []byte(notification),
		"20 kB":         []byte(long),
		"1 MB":          []byte("{" + wide.String() + `"end":0}`),
		"1 MB of [[[[…": []byte("[" + strings.Repeat(strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+",", 55) + "0]"),
		"1 MB of 0,0,…": []byte("[" + strings.Repeat("0,", 500_000) + "0]"),
	}
}

func BenchmarkParse(b *testing.B) {
	for name, body := range bodies() {
		b.Run(name, func(b *testing.B) {
			var d Doc
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for name, body := range bodies() {
		b.Run(name, func(b *testing.B) {
			var d Doc
			if err := d.Parse(body); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				d.Root().Fingerprint("webhook_delivery_attempt")
			}
		})
	}
}

// BenchmarkOthers reads the same bodies with what else there is, doing less than Parse does: jsontext's
// tokens make no index here, and encoding/json only checks.
func BenchmarkOthers(b *testing.B) {
	for name, body := range bodies() {
		b.Run("jsontext tokens/"+name, func(b *testing.B) {
			in := bytes.NewBuffer(nil)
			d := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				*in = *bytes.NewBuffer(body)
				d.Reset(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
				for {
					if _, err := d.ReadToken(); err != nil {
						break
					}
				}
			}
		})
		b.Run("json.Valid/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				json.Valid(body)
			}
		})
	}
}
