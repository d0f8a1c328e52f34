package canonical

import (
	"errors"
	"fmt"
)

// ErrShape says that a member that must be unmistakable is not. The errors that wrap it name the member,
// by the name it was asked for, and tell nothing of its content.
var ErrShape = errors.New("unusable member")

// Strict reads members on which a decision hangs, such as whose a delivery is: each must be of the kind
// asked for, and there only once. What is absent or null is no mistake. The first mistake is kept in Err
// and reading may go on, with empty values; the zero Strict is ready.
type Strict struct {
	err error
}

// Err is the first mistake that was met; it wraps ErrShape.
func (s *Strict) Err() error { return s.err }

// Text reads a string. It is empty when the member is absent or null.
func (s *Strict) Text(v Value, name string) string {
	return s.Member(v, name, String).Text()
}

// Object reads an object. It is absent when the member is absent or null.
func (s *Strict) Object(v Value, name string) Value {
	return s.Member(v, name, Object)
}

// Member reads a member of one of these kinds. It is absent when the member is absent or null.
func (s *Strict) Member(v Value, name string, kinds ...Kind) Value {
	member, repeated := v.Member(name)
	if repeated {
		s.fail(name, "repeated")
		return Value{}
	}
	return s.Want(member, name, kinds...)
}

// Want is Member for a value at hand: an element of an array.
func (s *Strict) Want(v Value, name string, kinds ...Kind) Value {
	kind := v.Kind()
	if kind == Absent || kind == Null {
		return Value{}
	}
	for _, k := range kinds {
		if kind == k {
			return v
		}
	}
	s.fail(name, "of the wrong type")
	return Value{}
}

func (s *Strict) fail(name, mistake string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s is %s", ErrShape, name, mistake)
	}
}
