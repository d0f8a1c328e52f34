package canonical

import (
	"errors"
	"fmt"
)

// ErrShape says that an important member is ambiguous or of the wrong kind. Errors that wrap it name the member as it
// was asked for, without its content.
var ErrShape = errors.New("unusable member")

// Strict reads members that decisions depend on, such as the owner of a delivery: each must have the right kind and
// occur only once. An absent or null member is not an error. Strict keeps the first error in Err, and continues with
// empty values. The zero Strict is ready.
type Strict struct {
	err error
}

// Err is the first error; it wraps ErrShape.
func (s *Strict) Err() error { return s.err }

// Text reads a string. It is empty if the member is absent or null.
func (s *Strict) Text(v Value, name string) string {
	return s.Member(v, name, String).Text()
}

// Object reads an object. It is absent if the member is absent or null.
func (s *Strict) Object(v Value, name string) Value {
	return s.Member(v, name, Object)
}

// Member reads a member of one of these kinds. It is absent if the member is absent or null.
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
