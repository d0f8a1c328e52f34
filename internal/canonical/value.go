package canonical

import "iter"

// Kind is the kind of a value.
type Kind byte

// The kinds of values. Absent is the kind of the zero Value: a missing member.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Value is one value of a Doc; the zero Value is none. Every method may be called on every kind; on the wrong kind it
// returns the result for an empty value.
type Value struct {
	doc *Doc
	at  uint32
}

// Kind returns the value's kind.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return Absent
	}
	switch v.doc.body[v.doc.nodes[v.at].start] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		return Number
	}
}

// Raw returns the value's exact bytes, without surrounding blanks, as a slice of the body.
func (v Value) Raw() []byte {
	if v.doc == nil {
		return nil
	}
	n := v.doc.nodes[v.at]
	return v.doc.body[n.start:n.end:n.end]
}

// Text returns the text of a string with its escapes resolved. Bytes that are not UTF-8 stay as they came; half a
// surrogate pair becomes the three bytes that UTF-8 would have for it.
func (v Value) Text() string {
	if v.Kind() != String {
		return ""
	}
	n := v.doc.nodes[v.at]
	content := v.doc.body[n.start+1 : n.end-1]
	if !n.escaped() {
		return string(content)
	}
	return string(appendText(make([]byte, 0, len(content)), content))
}

// True reports whether the value is the literal true.
func (v Value) True() bool {
	return v.Kind() == Bool && v.doc.body[v.doc.nodes[v.at].start] == 't'
}

// Member returns an object's first member with exactly this name, and whether there is another one.
func (v Value) Member(name string) (member Value, repeated bool) {
	if v.Kind() != Object {
		return Value{}, false
	}
	d := v.doc
	for i, end := v.at+1, d.nodes[v.at].after(); i < end; i = d.nodes[i+1].after() {
		if !d.named(i, name) {
			continue
		}
		if member.doc != nil {
			return member, true
		}
		member = Value{doc: d, at: i + 1}
	}
	return member, false
}

// Only returns the member with this name if there is exactly one: which of several is meant is unknown.
func (v Value) Only(name string) Value {
	member, repeated := v.Member(name)
	if repeated {
		return Value{}
	}
	return member
}

// Elements iterates over an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		d := v.doc
		for i, end := v.at+1, d.nodes[v.at].after(); i < end; i = d.nodes[i].after() {
			if !yield(Value{doc: d, at: i}) {
				return
			}
		}
	}
}

// First returns an array's first element; absent if there is none.
func (v Value) First() Value {
	if v.Kind() != Array || v.doc.nodes[v.at].after() == v.at+1 {
		return Value{}
	}
	return Value{doc: v.doc, at: v.at + 1}
}

// named reports whether the name at node i is the given one.
func (d *Doc) named(i uint32, name string) bool {
	n := d.nodes[i]
	content := d.body[n.start+1 : n.end-1]
	if !n.escaped() {
		return string(content) == name
	}
	// An escape is never shorter than its character, and at most six times as long.
	if len(content) < len(name) || len(content) > 6*len(name) {
		return false
	}
	var short [64]byte
	return string(appendText(short[:0], content)) == name
}
