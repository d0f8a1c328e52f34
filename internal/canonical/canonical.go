// Package canonical reads a JSON body once, into an index over the body's own bytes, and answers from
// that index what a member holds, which bytes an element has, and the fingerprint of its content.
//
// It accepts exactly the documents that encoding/json accepts: RFC 8259, nested at most 10,000 deep, but for those
// of more than MaxNodes values and names.
// As there, bytes in a string that are no UTF-8 and escapes of half a surrogate pair are let through;
// other than there, nothing is replaced by U+FFFD, so that two texts that differ stay different. Member
// names are compared exactly, after their escapes are resolved, and a repeated member is seen.
package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
)

// The ways in which a body is no document. The errors that wrap them tell a position, never a content.
var (
	ErrSyntax   = errors.New("not one JSON value")
	ErrTooDeep  = errors.New("JSON nested too deep")
	ErrTooLarge = errors.New("JSON too large")
)

// MaxDepth is how many arrays and objects may be open at once: the bound of encoding/json and jsontext.
const MaxDepth = 10_000

// MaxNodes is how many values and member names a document may have. Each takes 12 bytes of the index, and the least
// takes 2 of the body, so that without a bound a small compressed body could take hundreds of megabytes. A delivery
// of a vendor has a few hundred, a request of a thousand deliveries some hundred thousand.
const MaxNodes = 1 << 20

// maxBytes keeps positions and node numbers below the bit that marks an escaped string.
const maxBytes = 1<<31 - 1

// Doc is the index of one body. The zero value is ready for Parse. It is not safe for concurrent use,
// and its Values are good until the next Parse or until it goes back to its Pool. Its index takes at
// most six times the body's size (a body of nothing but small numbers), usually less than its size; a
// fingerprint takes at most three times the size of the members it has to sort.
type Doc struct {
	body  []byte
	nodes []node
	form  form
}

// node is one value or one member name. Nodes lie in the order of the text: a container is followed by
// its elements or by its names and values in turn.
type node struct {
	start uint32 // of its first byte
	end   uint32 // past its last byte
	// next is the number of the first node after this one and all it contains, with escapedBit for a
	// string that has a backslash. While a container is being read, it is the container around it.
	next uint32
}

const escapedBit = 1 << 31

// after is the number of the node that follows n and all it contains.
func (n node) after() uint32 { return n.next &^ escapedBit }

// escaped reports whether n is a string that has a backslash.
func (n node) escaped() bool { return n.next&escapedBit != 0 }

// Parse reads a body that must be exactly one JSON value with blanks around it, and keeps the slice: its
// bytes must not change while the Doc or a slice it gave is in use. After an error the Doc is empty.
func (d *Doc) Parse(body []byte) error {
	d.body, d.nodes = body, d.nodes[:0]
	err := d.scan()
	if err != nil {
		d.body, d.nodes = nil, d.nodes[:0]
	}
	return err
}

// Root is the value of the whole body; absent when nothing was parsed.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{doc: d}
}

// Pool lends Docs, so that a busy reader allocates few. The zero value is ready; safe for concurrent use.
type Pool struct {
	docs sync.Pool
}

// Parse is Doc.Parse on a Doc of the pool. The caller gives it back with Put; after an error there is
// nothing to give back.
func (p *Pool) Parse(body []byte) (*Doc, error) {
	d, ok := p.docs.Get().(*Doc)
	if !ok {
		d = new(Doc)
	}
	if err := d.Parse(body); err != nil {
		p.Put(d)
		return nil, err
	}
	return d, nil
}

// Put gives a Doc back. Its Values must not be used any more; texts and byte slices they gave may.
func (p *Pool) Put(d *Doc) {
	d.body = nil
	if d.small() {
		p.docs.Put(d)
	}
}

// small reports whether what a Doc holds is worth keeping: one huge body must not hold its space for good.
func (d *Doc) small() bool {
	return cap(d.nodes) <= 1<<14 && cap(d.form.order) <= 1<<12 && cap(d.form.names) <= 1<<16 &&
		cap(d.form.stack) <= 1<<12
}

// Hash is the fingerprint of a whole body, as Value.Fingerprint gives it. A body that is no JSON has the
// fingerprint of its raw bytes.
func Hash(body []byte, omit ...string) string {
	var d Doc
	if err := d.Parse(body); err != nil {
		return Raw(body)
	}
	return d.Root().Fingerprint(omit...)
}

// Raw is the fingerprint of bytes as they are: "r1:" and their SHA-256 in hex.
func Raw(body []byte) string {
	sum := sha256.Sum256(body)
	return spell(rawPrefix, &sum)
}

// The methods, as a fingerprint names the one that made it.
const (
	Method    = "c1" // of canonical JSON
	RawMethod = "r1" // of the bytes
)

const (
	canonicalPrefix = Method + ":"
	rawPrefix       = RawMethod + ":"
)

// spell writes a sum behind the name of its method.
func spell(prefix string, sum *[sha256.Size]byte) string {
	var out [len(rawPrefix) + 2*sha256.Size]byte
	hex.Encode(out[copy(out[:], prefix):], sum[:])
	return string(out[:])
}
