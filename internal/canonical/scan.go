package canonical

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// expect is what the grammar allows next.
type expect byte

const (
	aValue expect = iota // a value
	aName                // a name
	// From here on, the end of the open container is allowed too.
	firstElement // a value
	firstName    // a name
	aComma       // a comma, or the end of the body
)

// nowhere is the container around the outermost value.
const nowhere = 1<<31 - 1

// scan fills the index in one pass. Open containers are linked through their nodes, so depth uses no stack.
func (d *Doc) scan() error {
	b := d.body
	if len(b) > maxBytes {
		return ErrTooLarge
	}
	var (
		nodes         = withRoom(d.nodes, b)
		open   uint32 = nowhere
		closer byte   = ' ' // of the open container; it is never compared with a blank
		depth  int
		next   = aValue
	)
	for i := 0; ; {
		i = skipBlanks(b, i)
		if len(nodes) > MaxNodes {
			return fmt.Errorf("%w: more than %d values and names", ErrTooLarge, MaxNodes)
		}
		if i == len(b) {
			if next != aComma || open != nowhere {
				return refuse(i)
			}
			d.nodes = nodes
			return nil
		}
		switch c := b[i]; {
		case c == closer && next >= firstElement:
			i++
			n := &nodes[open]
			open, n.end, n.next = n.next, uint32(i), uint32(len(nodes))
			closer, next, depth = closerOf(b, nodes, open), aComma, depth-1
		case next == aComma:
			if c != ',' || open == nowhere {
				return refuse(i)
			}
			i++
			next = aValue
			if closer == '}' {
				next = aName
			}
		case next == aName || next == firstName:
			end, past, flag := scanName(b, i)
			if past < 0 {
				return refuse(i)
			}
			nodes = append(nodes, node{uint32(i), uint32(end), uint32(len(nodes)+1) | flag})
			i, next = past, aValue
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("%w: more than %d levels", ErrTooDeep, MaxDepth)
			}
			nodes = append(nodes, node{start: uint32(i), next: open})
			open, closer = uint32(len(nodes)-1), c+2 // ']' is '['+2, and '}' is '{'+2
			i++
			next = firstElement
			if c == '{' {
				next = firstName
			}
		default:
			end, flag := scanScalar(b, i)
			if end < 0 {
				return refuse(i)
			}
			nodes = append(nodes, node{uint32(i), uint32(end), uint32(len(nodes)+1) | flag})
			i, next = end, aComma
		}
	}
}

// withRoom returns space for the index of a body. It allocates the exact size if the slice may be much too small:
// growing in steps would take a huge body's space several times.
func withRoom(nodes []node, b []byte) []node {
	if cap(nodes) >= len(b)/16 {
		return nodes
	}
	most := 1 // every node but the first comes after one of these
	for _, c := range []byte(",:[{") {
		most += bytes.Count(b, []byte{c})
	}
	if most = min(most, len(b)/2+1, MaxNodes+1); most > cap(nodes) {
		return make([]node, 0, most)
	}
	return nodes
}

// refuse returns an error with the position where a body stops being JSON, without its content.
func refuse(at int) error { return fmt.Errorf("%w: byte %d", ErrSyntax, at) }

// closerOf returns the byte that ends a container.
func closerOf(b []byte, nodes []node, container uint32) byte {
	if container == nowhere {
		return ' '
	}
	return b[nodes[container].start] + 2
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// scanName returns the end of the member name at i and the position after its colon; negative if there is no name with
// a colon.
func scanName(b []byte, i int) (end, past int, flag uint32) {
	if b[i] != '"' {
		return 0, -1, 0
	}
	end, flag = scanScalar(b, i)
	if end < 0 {
		return 0, -1, 0
	}
	past = skipBlanks(b, end)
	if past == len(b) || b[past] != ':' {
		return 0, -1, 0
	}
	return end, past + 1, flag
}

// scanScalar returns the end of the string, number or literal at i, and escapedBit for a string with a backslash;
// negative if there is none.
func scanScalar(b []byte, i int) (end int, flag uint32) {
	switch b[i] {
	case '"':
		end, escaped := scanString(b, i+1)
		if escaped {
			flag = escapedBit
		}
		return end, flag
	case 't':
		return scanLiteral(b, i, "true"), 0
	case 'f':
		return scanLiteral(b, i, "false"), 0
	case 'n':
		return scanLiteral(b, i, "null"), 0
	default:
		return scanNumber(b, i), 0
	}
}

func scanLiteral(b []byte, i int, literal string) int {
	if end := i + len(literal); end <= len(b) && string(b[i:end]) == literal {
		return end
	}
	return -1
}

// scanString returns the position after the closing quote of a string whose content begins at i, and whether it has a
// backslash.
func scanString(b []byte, i int) (end int, escaped bool) {
	for i < len(b) {
		if i+8 <= len(b) {
			stops := stringStops(binary.LittleEndian.Uint64(b[i:]))
			if stops == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(stops) / 8
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i = scanEscape(b, i); i < 0 {
				return -1, true
			}
		case c < ' ':
			return -1, escaped
		default:
			i++
		}
	}
	return -1, escaped
}

// stringStops sets the high bit of the first of eight bytes that is a quote, a backslash or a control character. Higher
// bits have no meaning, because borrows run upwards.
func stringStops(x uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & highs
}

// scanEscape returns the position after the escape at i; negative if it is none.
func scanEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 <= len(b) && isHex(b[i+2]) && isHex(b[i+3]) && isHex(b[i+4]) && isHex(b[i+5]) {
			return i + 6
		}
	}
	return -1
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// scanNumber returns the position after the number at i; negative if there is none.
func scanNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := scanDigits(b, i)
	if whole == i || b[i] == '0' && whole > i+1 {
		return -1
	}
	i = whole
	if i < len(b) && b[i] == '.' {
		end := scanDigits(b, i+1)
		if end == i+1 {
			return -1
		}
		i = end
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := scanDigits(b, i)
		if end == i {
			return -1
		}
		i = end
	}
	return i
}

func scanDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}
