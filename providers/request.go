package providers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
)

// Request is one verified request, as a value that can be stored and read back. Everything after verification depends
// on it alone. A request that is settled at once, settled again after an uncertain commit, or redriven from a drop
// therefore takes one path and mints the same ids.
type Request struct {
	ID              uuid.UUID     `json:"id"`   // UUIDv7
	Seed            []byte        `json:"seed"` // 16 random bytes; see Mint
	Provider        string        `json:"provider"`
	Target          Target        `json:"target"`
	VerifiedBy      jobs.Verifier `json:"verified_by"`
	ReceivedAt      time.Time     `json:"received_at"` // this gateway's clock
	ContentType     string        `json:"content_type"`
	ContentEncoding string        `json:"content_encoding"`
	Headers         []Header      `json:"headers"` // the provider's allow list, in the order of that list
	Body            []byte        `json:"body"`    // the bytes of the wire
}

// Target is what a URL names: a job or a source. Both are zero for an id that cannot be parsed, which is treated as
// unknown.
type Target struct {
	Job    uuid.UUID `json:"job,omitzero"`
	Source string    `json:"source,omitzero"`
}

// Header is one header line that is kept with a delivery.
type Header struct {
	Name  string `json:"name"` // lower case
	Value string `json:"value"`
}

// Minted says what a minted id is for.
type Minted byte

// The ids of one delivery.
const (
	DeliveryID Minted = 'd'
	ClaimID    Minted = 'c'
	LeaseToken Minted = 't'
	DropID     Minted = 'x'
)

// NewSeed returns 16 random bytes to mint a request's ids from.
func NewSeed() []byte {
	seed := make([]byte, 16)
	_, _ = rand.Read(seed) // crypto/rand.Read never returns an error: it ends the process instead
	return seed
}

// Mint returns the id of the request's n-th delivery for one use: the same one every time. Ids sort by the time of
// receipt, and within a request by n (UUIDv7, whose 12 bits after the version are n). A lease token (UUIDv4) reveals
// neither.
func (r *Request) Mint(use Minted, n int) uuid.UUID {
	var in [16 + 1 + 8]byte
	copy(in[:16], r.Seed)
	in[16] = byte(use)
	binary.BigEndian.PutUint64(in[17:], uint64(n))
	sum := sha256.Sum256(in[:])

	id := uuid.UUID(sum[:16])
	version := byte(0x40)
	if use != LeaseToken {
		ms := uint64(r.ReceivedAt.UnixMilli())
		id[0], id[1], id[2] = byte(ms>>40), byte(ms>>32), byte(ms>>24)
		id[3], id[4], id[5] = byte(ms>>16), byte(ms>>8), byte(ms)
		id[6], id[7] = byte(n>>8), byte(n)
		version = 0x70
	}
	id[6] = id[6]&0x0f | version
	id[8] = id[8]&0x3f | 0x80
	return id
}
