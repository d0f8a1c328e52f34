package nylas

import (
	"strings"
	"testing"
	"time"
)

func BenchmarkParse(b *testing.B) {
	mail := strings.Repeat(`<p class=\"x\">Some words of a mail, a bit of \u00fcml\u00e4ut,<\/p>\r\n`, 300)
	usual := changed(b, `"subject":"<b>"`, `"snippet":"Hello, please find the invoice for August attached.","starred":false,"subject":"Invoice 2024-0817","thread_id":"1915c5d0b7f4a1e2","to":[{"email":"ap@example.com","name":"Accounts payable"}],"unread":true,"attachments":[{"content_disposition":"attachment; filename=\"invoice.pdf\"","content_type":"application/pdf","filename":"invoice.pdf","id":"v0:aW52b2ljZS5wZGY=:81231","is_inline":false,"size":81231}],"bcc":[],"body":"<div dir=\"ltr\">Hello,<br>please find the invoice for August attached.<br><br>Kind regards<\/div>","cc":[{"email":"books@example.com","name":"Books"}],"created_at":1723821981,"date":1723821981,"folders":["UNREAD","CATEGORY_PERSONAL","INBOX"],"from":[{"email":"billing@example.org","name":"Billing"}],"reply_to":[]`)
	for _, c := range []struct{ name, body string }{
		{"1.2 kB", usual},
		{"20 kB", changed(b, `"<b>"`, `"`+mail+`"`)},
		{"1 MB of text", changed(b, `"<b>"`, `"`+strings.Repeat(mail, 50)+`"`)},
		{"1 MB of objects", changed(b, `"<b>"`, `[`+strings.Repeat(`{"email":"ap@example.com","name":"Accounts payable","size":7},`, 16_000)+`0]`)},
		{"100 deltas", `{"deltas":[` + strings.Repeat(delta1+",", 99) + delta1 + `]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, body := New(), []byte(c.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Parse("", body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	body := []byte(created)
	h := Sign(secret, body)
	b.ReportAllocs()
	for b.Loop() {
		proof, err := New().Prove(h, time.Time{})
		if err != nil || !proof.Verify(secret, body) {
			b.Fatal(err)
		}
	}
}
