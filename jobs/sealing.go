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

// A sealed secret is stored as: version (1 byte), key id (4), nonce (12), ciphertext and tag. It is authenticated
// together with the identity of its holder, so that it does not open in another row, nor after the row was given to
// another organization or provider. Version 1, which is only opened, binds the table and the row's id alone.
const (
	sealVersion    = 2
	oldSealVersion = 1
	keyIDBytes     = 4
	sealHeader     = 1 + keyIDBytes

	sourcesTable = "agent.provider_sources"
	jobsTable    = "agent.provider_jobs"

	keysSetting = "GATEWAY_SECRETS_KEY"
	makeKey     = "make one with: openssl rand -base64 32"
)

// ErrKey says that GATEWAY_SECRETS_KEY cannot be used: it is not set, not well-formed, or does not open a stored
// secret.
var ErrKey = errors.New(keysSetting)

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

// NewKeys reads the text of GATEWAY_SECRETS_KEY: 32 random bytes in base64, or several of them separated by commas. The
// first seals, all of them open. The error names the setting and never contains the text.
func NewKeys(text string) (*Keys, error) {
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%w is not set; %s", ErrKey, makeKey)
	}
	k := &Keys{byID: make(map[keyID]cipher.AEAD)}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		which := ""
		if len(parts) > 1 {
			which = fmt.Sprintf(" (key %d of %d)", i+1, len(parts))
		}
		key, err := readKey(part)
		if err != nil {
			return nil, fmt.Errorf("%w%s %w", ErrKey, which, err)
		}
		id := idOf(key)
		if _, twice := k.byID[id]; twice {
			return nil, fmt.Errorf("%w%s is there twice; leave one of them out", ErrKey, which)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("read %w%s: %w", ErrKey, which, err)
		}
		if k.byID[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("read %w%s: %w", ErrKey, which, err)
		}
		if i == 0 {
			k.first = id
		}
	}
	return k, nil
}

// readKey reads one key. If it is not well-formed, stored secrets may be sealed with the right one. So the error says
// how to correct the key, and what a new key would cost.
func readKey(text string) ([]byte, error) {
	const mend = "write it as it was made, 44 characters of base64. A new key (openssl rand -base64 32) does not open what is stored"
	text = strings.TrimSpace(text)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case strings.ContainsAny(text, "\"'`"):
		return nil, errors.New("has quotes in it: remove them, the key between them is right; env files and YAML blocks keep quotes as a part of the value")
	case text == "":
		return nil, errors.New("is empty: remove the comma before or behind it")
	case err != nil:
		return nil, errors.New("is not base64; " + mend)
	case len(key) != 32:
		return nil, fmt.Errorf("holds %d bytes, and 32 are needed; %s", len(key), mend)
	}
	return key, nil
}

// idOf returns an id for a key that reveals nothing about it.
func idOf(key []byte) keyID {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("webhook-gateway key id"))
	return keyID(mac.Sum(nil)[:keyIDBytes])
}

// holder is the owner of a sealed secret, as its row says.
type holder struct {
	kind         VerifierKind
	id           uuid.UUID
	provider     string
	organization uuid.UUID // zero for a source: its jobs have them
}

// bound returns the data with which a holder's secret is authenticated. Parts of fixed length come first, so that no
// two holders have the same data.
func (h holder) bound(version byte) []byte {
	table := tableOf(h.kind).name
	if version == oldSealVersion {
		return append([]byte(table), h.id[:]...)
	}
	b := append([]byte{version}, h.id[:]...)
	b = append(b, h.organization[:]...)
	return append(b, table+" "+h.provider...)
}

// seal encrypts a secret for one holder, with the first key.
func (k *Keys) seal(of holder, s Secret) []byte {
	header := append([]byte{sealVersion}, k.first[:]...)
	return k.byID[k.first].Seal(header, nil, []byte(s.Reveal()), of.bound(sealVersion))
}

// newest reports whether a secret is sealed as seal does it now: with the first key, in the newest version.
func (k *Keys) newest(sealed []byte) bool {
	id, ok := sealedWith(sealed)
	return ok && id == k.first && sealed[0] == sealVersion
}

// open decrypts what seal encrypted for the same holder. The error is errUnknownKey or errAltered.
func (k *Keys) open(of holder, sealed []byte) (Secret, error) {
	id, ok := sealedWith(sealed)
	if !ok {
		return Secret{}, errAltered
	}
	aead, ok := k.byID[id]
	if !ok {
		return Secret{}, errUnknownKey
	}
	plain, err := aead.Open(nil, nil, sealed[sealHeader:], of.bound(sealed[0]))
	if err != nil || len(plain) == 0 {
		return Secret{}, errAltered
	}
	text := string(plain)
	return Secret{text: &text}, nil
}

// sealedWith returns the key that sealed a secret; false if it is none of ours.
func sealedWith(sealed []byte) (keyID, bool) {
	if len(sealed) < sealHeader || sealed[0] != sealVersion && sealed[0] != oldSealVersion {
		return keyID{}, false
	}
	return keyID(sealed[1:sealHeader]), true
}

// String returns [redacted].
func (k *Keys) String() string { return redacted }

// GoString returns [redacted].
func (k *Keys) GoString() string { return redacted }

// Format writes [redacted] for every verb and flag.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns [redacted].
func (k *Keys) LogValue() slog.Value { return slog.StringValue(redacted) }
