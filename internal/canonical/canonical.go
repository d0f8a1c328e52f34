// Package canonical reads a JSON body once, into an index over the body's own bytes. The index then answers what a
// member holds, which bytes an element has, and the fingerprint of its content.
//
// It accepts the same documents as encoding/json (RFC 8259, nested at most 10,000 deep), except those with more than
// MaxNodes values and names. Like encoding/json, it accepts strings with bytes that are not UTF-8 and with escapes of
// half a surrogate pair. Unlike encoding/json, it does not replace them by U+FFFD, so that two texts that differ stay
// different. It compares member names exactly, after their escapes are resolved, and detects repeated members.
package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
)

// The reasons why a body is not a document. Errors that wrap them contain a position, never content.
var (
	ErrSyntax   = errors.New("not one JSON value")
	ErrTooDeep  = errors.New("JSON nested too deep")
	ErrTooLarge = errors.New("JSON too large")
)

// MaxDepth is the maximum nesting of arrays and objects, as in encoding/json and jsontext.
const MaxDepth = 10_000

// MaxNodes is the maximum number of values and member names in a document. Each takes 12 bytes of the index, but as
// little as 2 of the body, so without a bound a small compressed body could take hundreds of megabytes. A vendor's
// delivery has a few hundred, a request with a thousand deliveries some hundred thousand.
const MaxNodes = 1 << 20

// maxBytes keeps positions and node numbers below the bit that marks an escaped string.
const maxBytes = 1<<31 - 1

// Doc is the index of one body. The zero value is ready for Parse. It is not safe for concurrent use, and its Values
// are valid until the next Parse or until it goes back to its Pool. Its index takes at most six times the body's size
// (for a body of only small numbers), usually less than once. A fingerprint takes at most three times the size of the
// members that it sorts.
type Doc struct {
	body  []byte
	nodes []node
	form  form
}

// node is one value or one member name. Nodes are in the order of the text: a container is followed by its elements, or
// by its names and values in turn.
type node struct {
	start uint32 // of its first byte
	end   uint32 // past its last byte
	// next is the number of the first node after this one and all that it contains, with escapedBit for a string with a
	// backslash. While a container is being read, it is the enclosing container.
	next uint32
}

const escapedBit = 1 << 31

// after returns the number of the node that follows n and all that it contains.
func (n node) after() uint32 { return n.next &^ escapedBit }

// escaped reports whether n is a string with a backslash.
func (n node) escaped() bool { return n.next&escapedBit != 0 }

// Parse reads a body, which must be exactly one JSON value, with optional blanks around it. It keeps the slice: its
// bytes must not change while the Doc, or a slice from it, is in use. After an error the Doc is empty.
func (d *Doc) Parse(body []byte) error {
	d.body, d.nodes = body, d.nodes[:0]
	err := d.scan()
	if err != nil {
		d.body, d.nodes = nil, d.nodes[:0]
	}
	return err
}

// Root returns the value of the whole body; absent if nothing was parsed.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{doc: d}
}

// Pool lends Docs, so that a busy reader allocates few. The zero value is ready. It is safe for concurrent use.
type Pool struct {
	docs sync.Pool
}

// Parse is Doc.Parse on a Doc of the pool. The caller returns it with Put. After an error there is nothing to return.
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

// Put takes a Doc back. Its Values must not be used any more; texts and byte slices from it may.
func (p *Pool) Put(d *Doc) {
	d.body = nil
	if d.small() {
		p.docs.Put(d)
	}
}

// small reports whether a Doc's memory is worth keeping: one huge body must not hold its memory forever.
func (d *Doc) small() bool {
	return cap(d.nodes) <= 1<<14 && cap(d.form.order) <= 1<<12 && cap(d.form.names) <= 1<<16 &&
		cap(d.form.stack) <= 1<<12
}

// Hash returns the fingerprint of a whole body, like Value.Fingerprint. A body that is not JSON has the fingerprint of
// its raw bytes.
func Hash(body []byte, omit ...string) string {
	var d Doc
	if err := d.Parse(body); err != nil {
		return Raw(body)
	}
	return d.Root().Fingerprint(omit...)
}

// Raw returns the fingerprint of raw bytes: "r1:" and their SHA-256 in hex.
func Raw(body []byte) string {
	sum := sha256.Sum256(body)
	return spell(rawPrefix, &sum)
}

// The prefixes that name a fingerprint's method.
const (
	Method    = "c1" // of canonical JSON
	RawMethod = "r1" // of the bytes
)

const (
	canonicalPrefix = Method + ":"
	rawPrefix       = RawMethod + ":"
)

// spell formats a sum after the prefix of its method.
func spell(prefix string, sum *[sha256.Size]byte) string {
	var out [len(rawPrefix) + 2*sha256.Size]byte
	hex.Encode(out[copy(out[:], prefix):], sum[:])
	return string(out[:])
}
