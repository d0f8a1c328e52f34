package jobs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// keyText is a key for GATEWAY_SECRETS_KEY; the same for the same n.
func keyText(n byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
}

func mustKeys(t testing.TB, ns ...byte) *Keys {
	t.Helper()
	var texts []string
	for _, n := range ns {
		texts = append(texts, keyText(n))
	}
	k, err := NewKeys(strings.Join(texts, ","))
	if err != nil {
		t.Fatalf("NewKeys: %v", err)
	}
	return k
}

func TestKeysSayWhatIsWrongWithTheirSetting(t *testing.T) {
	t.Parallel()
	short := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 31))
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "GATEWAY_SECRETS_KEY is not set; make one with: openssl rand -base64 32"},
		{"blank", " \n", "GATEWAY_SECRETS_KEY is not set; make one with: openssl rand -base64 32"},
		{"no base64", "correct horse battery staple!", "GATEWAY_SECRETS_KEY is not base64; make one with: openssl rand -base64 32"},
		{"too short", short, "GATEWAY_SECRETS_KEY holds 31 bytes, and 32 are needed; make one with: openssl rand -base64 32"},
		{"an empty second", keyText(1) + ",", "GATEWAY_SECRETS_KEY (key 2 of 2) holds 0 bytes, and 32 are needed; make one with: openssl rand -base64 32"},
		{"a bad second", keyText(1) + ",*", "GATEWAY_SECRETS_KEY (key 2 of 2) is not base64; make one with: openssl rand -base64 32"},
		{"the same twice", keyText(1) + "," + keyText(2) + "," + keyText(1),
			"GATEWAY_SECRETS_KEY (key 3 of 3) is there twice; leave one of them out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, err := NewKeys(c.text)
			if err == nil || err.Error() != c.want || k != nil {
				t.Fatalf("got %v and %v, want %s", k, err, c.want)
			}
			if text := strings.TrimSpace(c.text); text != "" && strings.Contains(err.Error(), text) {
				t.Fatal("the error shows the setting")
			}
		})
	}
	if _, err := NewKeys(" " + keyText(1) + "\n, " + keyText(2) + " "); err != nil {
		t.Fatalf("space around the keys: %v", err)
	}
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	t.Parallel()
	row, secret := uuid.New(), mustSecret(t, plain)
	old, both, other := mustKeys(t, 1), mustKeys(t, 2, 1), mustKeys(t, 3)

	sealed := old.seal(sourcesTable, row, secret)
	if got, err := both.open(sourcesTable, row, sealed); err != nil || got.Reveal() != plain {
		t.Fatalf("an older key does not open: %v", err)
	}
	again := both.seal(sourcesTable, row, secret)
	if _, err := old.open(sourcesTable, row, again); !errors.Is(err, errUnknownKey) {
		t.Fatalf("sealed with the second key: got %v", err)
	}
	if got, err := mustKeys(t, 2).open(sourcesTable, row, again); err != nil || got.Reveal() != plain {
		t.Fatalf("the first key does not open what it sealed: %v", err)
	}
	if _, err := other.open(sourcesTable, row, sealed); !errors.Is(err, errUnknownKey) {
		t.Fatalf("a strange key: got %v", err)
	}
}

func TestASealedSecretOpensOnlyWhereAndAsItWasSealed(t *testing.T) {
	t.Parallel()
	row, keys := uuid.New(), mustKeys(t, 1, 2)
	sealed := keys.seal(jobsTable, row, mustSecret(t, plain))
	if bytes.Contains(sealed, []byte(plain)) {
		t.Fatal("it is not sealed")
	}
	if _, err := keys.open(jobsTable, row, sealed); err != nil {
		t.Fatalf("open: %v", err)
	}
	if _, err := keys.open(jobsTable, uuid.New(), sealed); !errors.Is(err, errAltered) {
		t.Fatalf("in another row: got %v", err)
	}
	if _, err := keys.open(sourcesTable, row, sealed); !errors.Is(err, errAltered) {
		t.Fatalf("in another table: got %v", err)
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := keys.open(jobsTable, row, bad); err == nil {
			t.Fatalf("byte %d altered: it opens", i)
		}
	}
	for n := range sealed {
		if _, err := keys.open(jobsTable, row, sealed[:n]); err == nil {
			t.Fatalf("cut to %d bytes: it opens", n)
		}
	}
	if bytes.Equal(sealed, keys.seal(jobsTable, row, mustSecret(t, plain))) {
		t.Fatal("sealed twice it is the same: the nonce is no nonce")
	}
}
