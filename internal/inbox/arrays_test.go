package inbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

func TestArraysLikePgx(t *testing.T) {
	t.Parallel()
	theirs, ours := pgtype.NewMap(), pgtype.NewMap()
	useArrays(ours)
	useArrays(ours) // a second time changes nothing

	id := rapid.Custom(func(t *rapid.T) uuid.UUID {
		return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	})
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-60_000_000_000, 250_000_000_000).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
	})
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(id).Draw(t, "ids")
		plain := make([][16]byte, len(ids))
		for i := range ids {
			plain[i] = ids[i]
		}
		bodies := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "bodies")
		if len(bodies) > 1 {
			bodies[0], bodies[1] = nil, []byte{}
		}
		for oid, value := range map[uint32][]any{
			pgtype.UUIDArrayOID:        {ids, plain},
			pgtype.TextArrayOID:        {rapid.SliceOf(rapid.String()).Draw(t, "texts")},
			pgtype.ByteaArrayOID:       {bodies},
			pgtype.Int8ArrayOID:        {rapid.SliceOf(rapid.Int64()).Draw(t, "numbers")},
			pgtype.TimestamptzArrayOID: {rapid.SliceOf(instant).Draw(t, "instants")},
		} {
			for _, v := range value {
				want, err := theirs.Encode(oid, pgtype.BinaryFormatCode, v, []byte("before"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := ours.Encode(oid, pgtype.BinaryFormatCode, v, []byte("before"))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%T: %s", v, diff)
				}
			}
		}
	})
}

func TestOtherArraysByPgx(t *testing.T) {
	t.Parallel()
	m := pgtype.NewMap()
	useArrays(m)
	for oid, value := range map[uint32]any{
		pgtype.TextArrayOID: []*string{nil}, pgtype.Int8ArrayOID: []int32{1}, pgtype.UUIDArrayOID: []string{uuid.NewString()},
		pgtype.ByteaArrayOID: []string{"x"}, pgtype.TimestamptzArrayOID: []pgtype.Timestamptz{{}},
	} {
		want, wantErr := pgtype.NewMap().Encode(oid, pgtype.BinaryFormatCode, value, nil)
		got, err := m.Encode(oid, pgtype.BinaryFormatCode, value, nil)
		if (err == nil) != (wantErr == nil) || !cmp.Equal(got, want) {
			t.Errorf("%T: got %x, %v; want %x, %v", value, got, err, want, wantErr)
		}
	}
}

func BenchmarkArrays(b *testing.B) {
	texts := make([]string, 128)
	for i := range texts {
		texts[i] = uuid.NewString()
	}
	for name, m := range map[string]*pgtype.Map{"pgx": pgtype.NewMap(), "ours": pgtype.NewMap()} {
		if name == "ours" {
			useArrays(m)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, texts, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
