package load

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"webhook-gateway/providers/nylas"
)

// prepared holds requests that are ready to be written. Their common bytes are stored once, so that hundreds of
// thousands of requests need little memory.
type prepared struct {
	n         int
	bodyBytes int
	common    []byte // a request with marks
	holes     []hole
	values    []byte   // the bytes for the holes, request after request
	each      int      // bytes of values for one request
	whole     [][]byte // instead of the above, if the requests have nothing in common
}

type hole struct{ at, size int }

// signatureHeader is as net/http spells it.
const signatureHeader = "X-Nylas-Signature"

func prepare(spec *Spec) (*prepared, error) {
	body, err := spec.Shape.body(spec.Application, spec.Tenants)
	if err != nil {
		return nil, err
	}
	if spec.Requests < 1 || len(spec.Addresses) == 0 || len(spec.Tenants) == 0 {
		return nil, errors.New("prepare the requests: a number, an address and a tenant are needed")
	}
	if spec.Shape == Gzip {
		return prepareWhole(spec, body)
	}
	p := &prepared{n: spec.Requests, bodyBytes: len(body)}
	head := fmt.Sprintf(headForm, spec.Path, "", len(body), signMark)
	p.common = []byte(head + body)
	for _, mark := range []string{signMark, idMark, tenantMark} {
		for from := 0; ; {
			i := bytes.Index(p.common[from:], []byte(mark))
			if i < 0 {
				break
			}
			p.holes = append(p.holes, hole{from + i, len(mark)})
			p.each += len(mark)
			from += i + len(mark)
		}
	}
	p.values = make([]byte, 0, p.n*p.each)
	request := bytes.Clone(p.common)
	for i := range p.n {
		at := len(p.values)
		p.values = append(p.values, signMark...) // replaced by the signature below
		ids := 0
		for _, h := range p.holes[1:] {
			if h.size == len(idMark) {
				p.values = append(p.values, notificationID(spec.Run, i, ids)...)
				ids++
				continue
			}
			p.values = append(p.values, spec.Tenants[i%len(spec.Tenants)]...)
		}
		if len(p.values) != at+p.each {
			return nil, errors.New("a tenant's identity has not 36 characters")
		}
		p.fill(request, i)
		copy(p.values[at:], nylas.Sign(spec.Secret, request[len(head):]).Get(signatureHeader))
	}
	return p, nil
}

const headForm = "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Nylas/1.0\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n" +
	signatureHeader + ": %s\r\n\r\n"

// prepareWhole prepares bodies that have nothing in common once they are compressed.
func prepareWhole(spec *Spec, body string) (*prepared, error) {
	p := &prepared{n: spec.Requests, whole: make([][]byte, spec.Requests)}
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i := range p.n {
		plain := strings.NewReplacer(idMark, string(notificationID(spec.Run, i, 0)), tenantMark, spec.Tenants[i%len(spec.Tenants)]).Replace(body)
		wire, err := compressed(z, &out, []byte(plain))
		if err != nil {
			return nil, fmt.Errorf("compress a body: %w", err)
		}
		sign := nylas.Sign(spec.Secret, wire).Get(signatureHeader)
		p.whole[i] = append(fmt.Appendf(nil, headForm, spec.Path, "Content-Encoding: gzip\r\n", len(wire), sign), wire...)
		p.bodyBytes = len(wire)
	}
	return p, nil
}

// notificationID returns an id of 27 characters, distinct and spread like a random one.
func notificationID(run string, request, n int) []byte {
	var in [16]byte
	binary.BigEndian.PutUint64(in[:8], uint64(request))
	binary.BigEndian.PutUint64(in[8:], uint64(n))
	sum := sha256.Sum256(append(in[:], run...))
	id := make([]byte, len(idMark))
	copy(id, base32.StdEncoding.EncodeToString(sum[:20]))
	return id
}

// fill copies a request's values into a copy of the common bytes.
func (p *prepared) fill(request []byte, i int) {
	values := p.values[i*p.each:]
	for _, h := range p.holes {
		copy(request[h.at:h.at+h.size], values)
		values = values[h.size:]
	}
}

// request returns the bytes of the i-th request. It may write them into buf, which must come from buffer.
func (p *prepared) request(i int, buf []byte) []byte {
	if p.whole != nil {
		return p.whole[i]
	}
	p.fill(buf, i)
	return buf
}

// buffer returns a buffer for one connection to send from.
func (p *prepared) buffer() []byte { return bytes.Clone(p.common) }

// Bodies calls each with the bodies of the requests that Serve would send, in order. A body is valid until the next
// call.
func Bodies(spec *Spec, each func(body []byte) error) error {
	p, err := prepare(spec)
	if err != nil {
		return err
	}
	buf := p.buffer()
	for i := range p.n {
		_, body, _ := bytes.Cut(p.request(i, buf), []byte("\r\n\r\n"))
		if err := each(body); err != nil {
			return err
		}
	}
	return nil
}
