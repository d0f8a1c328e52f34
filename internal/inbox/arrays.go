package inbox

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// arrayCodec encodes the arrays of a settling transaction in one piece. pgx's own codec boxes each element, looks up
// how to encode it, and grows the message step by step; it even sends a UUID through its text form. The bytes are the
// same. Types not listed in PlanEncode are left to pgx.
type arrayCodec struct{ *pgtype.ArrayCodec }

// useArrays makes a connection encode arrays with arrayCodec. It does nothing if the connection already does.
func useArrays(m *pgtype.Map) {
	for _, oid := range []uint32{
		pgtype.UUIDArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID, pgtype.Int8ArrayOID, pgtype.TimestamptzArrayOID,
	} {
		t, known := m.TypeForOID(oid)
		if !known {
			continue
		}
		codec, plain := t.Codec.(*pgtype.ArrayCodec)
		if !plain {
			return
		}
		m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: arrayCodec{codec}})
	}
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case [][16]byte:
			if oid == pgtype.UUIDArrayOID {
				return arrayPlan[[16]byte]{pgtype.UUIDOID, func([16]byte) int { return 16 }, func(b []byte, v [16]byte) []byte { return append(b, v[:]...) }}
			}
		case []uuid.UUID:
			if oid == pgtype.UUIDArrayOID {
				return arrayPlan[uuid.UUID]{pgtype.UUIDOID, func(uuid.UUID) int { return 16 }, func(b []byte, v uuid.UUID) []byte { return append(b, v[:]...) }}
			}
		case []string:
			if oid == pgtype.TextArrayOID {
				return arrayPlan[string]{pgtype.TextOID, func(v string) int { return len(v) }, func(b []byte, v string) []byte { return append(b, v...) }}
			}
		case [][]byte:
			if oid == pgtype.ByteaArrayOID {
				return arrayPlan[[]byte]{pgtype.ByteaOID, sizeOfBytes, func(b, v []byte) []byte { return append(b, v...) }}
			}
		case []int64:
			if oid == pgtype.Int8ArrayOID {
				return arrayPlan[int64]{pgtype.Int8OID, func(int64) int { return 8 }, appendInt64}
			}
		case []time.Time:
			if oid == pgtype.TimestamptzArrayOID {
				return arrayPlan[time.Time]{pgtype.TimestamptzOID, func(time.Time) int { return 8 }, appendTime}
			}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// null is the size of an element that is NULL.
const null = -1

func sizeOfBytes(v []byte) int {
	if v == nil {
		return null
	}
	return len(v)
}

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendTime writes microseconds since 2000, as PostgreSQL counts them.
func appendTime(b []byte, v time.Time) []byte {
	const year2000 = 946_684_800
	return appendInt64(b, (v.Unix()-year2000)*1_000_000+int64(v.Nanosecond())/1000)
}

// arrayPlan encodes a one-dimensional array.
type arrayPlan[E any] struct {
	element uint32 // the type's OID
	size    func(E) int
	put     func([]byte, E) []byte
}

// Encode implements pgtype.EncodePlan.
func (p arrayPlan[E]) Encode(value any, buf []byte) ([]byte, error) {
	array := value.([]E)
	total, nulls := 20, uint32(0)
	for _, v := range array {
		if total += 4; p.size(v) == null {
			nulls = 1
		} else {
			total += p.size(v)
		}
	}
	buf = slices.Grow(buf, total)
	buf = binary.BigEndian.AppendUint32(buf, 1) // dimension
	buf = binary.BigEndian.AppendUint32(buf, nulls)
	buf = binary.BigEndian.AppendUint32(buf, p.element)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(array)))
	buf = binary.BigEndian.AppendUint32(buf, 1) // the lowest index
	for _, v := range array {
		size := p.size(v)
		buf = binary.BigEndian.AppendUint32(buf, uint32(int32(size)))
		if size != null {
			buf = p.put(buf, v)
		}
	}
	return buf, nil
}
