package canonical

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"slices"
)

// form holds the state for writing a value's canonical form into a hash. A Doc keeps it for reuse.
type form struct {
	sum   hash.Hash
	out   []byte   // written, but not yet given to sum
	order []member // the members of the open objects, each object's sorted
	names []byte   // those of the names that had escapes, resolved
	stack []level
}

// member is one member to write: the text of its name, in the body or in form.names, and the node of its name.
type member struct {
	from  uint32 // with escapedBit: in form.names
	until uint32
	name  uint32
}

// level is one container that is being written.
type level struct {
	object    bool
	at, until uint32 // object: positions in form.order; array: node numbers
	names     uint32 // the previous length of form.names
	first     uint32
}

const flushAt = 8 << 10

// Fingerprint returns "c1:" and the SHA-256 of the value's canonical form in hex. The canonical form has no blanks,
// members sorted by the bytes of their names, one spelling for strings, numbers exactly as written, and none of the
// value's own members named in omit. Values have the same fingerprint only if they have the same content.
//
// A value with a repeated member, other than an omitted one or inside one, has no canonical form: its fingerprint is
// Raw of its bytes (of the whole body, for the root). Text that is not UTF-8 has a canonical form: its bytes stay as
// they are.
func (v Value) Fingerprint(omit ...string) string {
	if v.doc == nil {
		return Raw(nil)
	}
	d, f := v.doc, &v.doc.form
	if f.sum == nil {
		f.sum = sha256.New()
	}
	f.sum.Reset()
	f.out, f.order, f.names, f.stack = f.out[:0], f.order[:0], f.names[:0], f.stack[:0]
	if !d.writeForm(v.at, omit) {
		if v.at == 0 {
			return Raw(d.body)
		}
		return Raw(v.Raw())
	}
	f.sum.Write(f.out)
	var sum [sha256.Size]byte
	copy(sum[:], f.sum.Sum(f.out[:0]))
	return spell(canonicalPrefix, &sum)
}

// writeForm writes the value at node i; false if a member is repeated.
func (d *Doc) writeForm(i uint32, omit []string) bool {
	f := &d.form
	for {
		f.write(nil)
		n := d.nodes[i]
		switch d.body[n.start] {
		case '{':
			l := level{object: true, at: uint32(len(f.order)), names: uint32(len(f.names))}
			if !d.sortMembers(i, omit) {
				return false
			}
			l.first, l.until = l.at, uint32(len(f.order))
			f.stack = append(f.stack, l)
			f.out = append(f.out, '{')
		case '[':
			f.stack = append(f.stack, level{at: i + 1, first: i + 1, until: n.after()})
			f.out = append(f.out, '[')
		default:
			d.writeScalar(n)
		}
		omit = nil
		var more bool
		if i, more = d.nextToWrite(); !more {
			return true
		}
	}
}

// nextToWrite closes the containers that are complete, writes the comma and name of the next value, and returns its
// node.
func (d *Doc) nextToWrite() (i uint32, more bool) {
	f := &d.form
	for len(f.stack) > 0 {
		l := &f.stack[len(f.stack)-1]
		if l.at == l.until {
			f.pop()
			continue
		}
		if l.at != l.first {
			f.out = append(f.out, ',')
		}
		if !l.object {
			i = l.at
			l.at = d.nodes[i].after()
			return i, true
		}
		name := f.order[l.at].name
		l.at++
		d.writeScalar(d.nodes[name])
		f.out = append(f.out, ':')
		return name + 1, true
	}
	return 0, false
}

// pop ends the innermost container.
func (f *form) pop() {
	l := f.stack[len(f.stack)-1]
	f.stack = f.stack[:len(f.stack)-1]
	if !l.object {
		f.out = append(f.out, ']')
		return
	}
	f.out = append(f.out, '}')
	f.order, f.names = f.order[:l.first], f.names[:l.names]
}

// writeScalar writes a string in its one spelling, or a number or literal unchanged.
func (d *Doc) writeScalar(n node) {
	f, rest := &d.form, d.body[n.start:n.end]
	for n.escaped() {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			break
		}
		f.write(rest[:i])
		r, size := escape(rest[i:])
		f.out = appendEscaped(f.out, r)
		rest = rest[i+size:]
	}
	f.write(rest)
}

// write adds bytes to the hash. Short slices go through a buffer, which it empties when it is full; long ones go
// directly.
func (f *form) write(b []byte) {
	if len(f.out)+len(b) <= flushAt {
		f.out = append(f.out, b...)
		return
	}
	f.sum.Write(f.out)
	f.out = f.out[:0]
	if len(b) > flushAt/2 {
		f.sum.Write(b)
		return
	}
	f.out = append(f.out, b...)
}

// sortMembers appends the members of the object at node i to form.order, sorted; false if a name occurs twice.
func (d *Doc) sortMembers(i uint32, omit []string) bool {
	f := &d.form
	base := len(f.order)
	for at, end := i+1, d.nodes[i].after(); at < end; at = d.nodes[at+1].after() {
		if slices.ContainsFunc(omit, func(name string) bool { return d.named(at, name) }) {
			continue
		}
		n := d.nodes[at]
		m := member{from: n.start + 1, until: n.end - 1, name: at}
		if n.escaped() {
			m.from = uint32(len(f.names)) | escapedBit
			f.names = appendText(f.names, d.body[n.start+1:n.end-1])
			m.until = uint32(len(f.names))
		}
		f.order = append(f.order, m)
	}
	members := f.order[base:]
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(d.nameOf(a), d.nameOf(b)) })
	for k := 1; k < len(members); k++ {
		if bytes.Equal(d.nameOf(members[k-1]), d.nameOf(members[k])) {
			return false
		}
	}
	return true
}

func (d *Doc) nameOf(m member) []byte {
	if m.from&escapedBit != 0 {
		return d.form.names[m.from&^escapedBit : m.until]
	}
	return d.body[m.from:m.until]
}
