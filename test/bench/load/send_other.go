//go:build !linux

package load

import "errors"

func send(*Spec, *prepared) (*Result, error) {
	return nil, errors.New("send the load: this needs Linux")
}
