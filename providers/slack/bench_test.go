package slack

import (
	"strings"
	"testing"
	"time"
)

func BenchmarkParse(b *testing.B) {
	message := strings.Repeat(`{\"type\":\"section\",\"text\":\"Some words, a line\nand \u00fcml\u00e4uts\"}`, 16_000)
	for _, c := range []struct{ name, contentType, body string }{
		{"event", asJSON, mention},
		{"event of 1 MB", asJSON, change(b, mention, "<@U2> hello", message)},
		{"interaction", asForm, interaction(click)},
		{"command", asForm, vectors(b)[0].Body},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, body := New(), []byte(c.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Parse(c.contentType, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHandshakeOfAnEvent(b *testing.B) {
	p, body := New(), []byte(mention)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := p.Handshake(asJSON, body); ok {
			b.Fatal("shook hands")
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	body := []byte(mention)
	h := Sign(secret, time.Now(), body)
	b.ReportAllocs()
	for b.Loop() {
		proof, err := New().Prove(h, time.Now())
		if err != nil || !proof.Verify(secret, body) {
			b.Fatal(err)
		}
	}
}
