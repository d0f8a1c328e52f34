package jobs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/google/uuid"
)

// A sealed secret is stored as: version (1 byte), key id (4), nonce (12), ciphertext and tag. The table
// and the row's id are authenticated with it, so that a secret that is copied to another row does not
// open there.
const (
	sealVersion = 1
	keyIDBytes  = 4
	sealHeader  = 1 + keyIDBytes

	sourcesTable = "agent.provider_sources"
	jobsTable    = "agent.provider_jobs"

	keysSetting = "GATEWAY_SECRETS_KEY"
	makeKey     = "make one with: openssl rand -base64 32"
)

var (
	errUnknownKey = errors.New("sealed with a key that " + keysSetting + " does not hold")
	errAltered    = errors.New("does not open with the key it was sealed with")
)

type keyID [keyIDBytes]byte

func (id keyID) String() string { return hex.EncodeToString(id[:]) }

// Keys seals signing secrets for the database and opens them. It is safe for concurrent use and prints
// as [redacted].
type Keys struct {
	first keyID
	byID  map[keyID]cipher.AEAD
}

// NewKeys reads the text of GATEWAY_SECRETS_KEY: 32 random bytes in base64, or several of them with
// commas between. The first seals, all open. The error names the setting and never holds the text.
func NewKeys(text string) (*Keys, error) {
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%s is not set; %s", keysSetting, makeKey)
	}
	k := &Keys{byID: make(map[keyID]cipher.AEAD)}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		name := keysSetting
		if len(parts) > 1 {
			name = fmt.Sprintf("%s (key %d of %d)", keysSetting, i+1, len(parts))
		}
		key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%s is not base64; %s", name, makeKey)
		}
		if len(key) != 32 {
			return nil, fmt.Errorf("%s holds %d bytes, and 32 are needed; %s", name, len(key), makeKey)
		}
		id := idOf(key)
		if _, twice := k.byID[id]; twice {
			return nil, fmt.Errorf("%s is there twice; leave one of them out", name)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if k.byID[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if i == 0 {
			k.first = id
		}
	}
	return k, nil
}

// idOf names a key without telling anything about it.
func idOf(key []byte) keyID {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("webhook-gateway key id"))
	return keyID(mac.Sum(nil)[:keyIDBytes])
}

// seal closes a secret for one row of one table.
func (k *Keys) seal(table string, row uuid.UUID, s Secret) []byte {
	header := append([]byte{sealVersion}, k.first[:]...)
	return k.byID[k.first].Seal(header, nil, []byte(s.Reveal()), boundTo(table, row))
}

// open gives back what seal closed for the same row. The error is errUnknownKey or errAltered.
func (k *Keys) open(table string, row uuid.UUID, sealed []byte) (Secret, error) {
	id, ok := sealedWith(sealed)
	if !ok {
		return Secret{}, errAltered
	}
	aead, ok := k.byID[id]
	if !ok {
		return Secret{}, errUnknownKey
	}
	plain, err := aead.Open(nil, nil, sealed[sealHeader:], boundTo(table, row))
	if err != nil || len(plain) == 0 {
		return Secret{}, errAltered
	}
	text := string(plain)
	return Secret{text: &text}, nil
}

// sealedWith reads which key closed a secret; false when it is none of ours.
func sealedWith(sealed []byte) (keyID, bool) {
	if len(sealed) < sealHeader || sealed[0] != sealVersion {
		return keyID{}, false
	}
	return keyID(sealed[1:sealHeader]), true
}

func boundTo(table string, row uuid.UUID) []byte { return append([]byte(table), row[:]...) }

// String returns [redacted].
func (k *Keys) String() string { return redacted }

// GoString returns [redacted].
func (k *Keys) GoString() string { return redacted }

// Format writes [redacted] for every verb and flag.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns [redacted].
func (k *Keys) LogValue() slog.Value { return slog.StringValue(redacted) }
