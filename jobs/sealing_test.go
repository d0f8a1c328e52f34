package jobs

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
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

func TestBadKeys(t *testing.T) {
	t.Parallel()
	short := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 31))
	const mend = "; write it as it was made, 44 characters of base64. A new key (openssl rand -base64 32) does not open what is stored"
	const quoted = " has quotes in it: remove them, the key between them is right; env files and YAML blocks keep quotes as a part of the value"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "GATEWAY_SECRETS_KEY is not set; make one with: openssl rand -base64 32"},
		{"blank", " \n", "GATEWAY_SECRETS_KEY is not set; make one with: openssl rand -base64 32"},
		{"no base64", "correct horse battery staple!", "GATEWAY_SECRETS_KEY is not base64" + mend},
		{"too short", short, "GATEWAY_SECRETS_KEY holds 31 bytes, and 32 are needed" + mend},
		{"double quotes", `"` + keyText(1) + `"`, "GATEWAY_SECRETS_KEY" + quoted},
		{"single quotes", "'" + keyText(1) + "'", "GATEWAY_SECRETS_KEY" + quoted},
		{"a quote at the end", keyText(1) + `"`, "GATEWAY_SECRETS_KEY" + quoted},
		{"quotes around two", `"` + keyText(1) + "," + keyText(2) + `"`, "GATEWAY_SECRETS_KEY (key 1 of 2)" + quoted},
		{"an empty second", keyText(1) + ",", "GATEWAY_SECRETS_KEY (key 2 of 2) is empty: remove the comma before or behind it"},
		{"a bad second", keyText(1) + ",*", "GATEWAY_SECRETS_KEY (key 2 of 2) is not base64" + mend},
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

// someJob is a holder of secrets.
func someJob() holder {
	return holder{kind: ByJob, id: uuid.New(), provider: "slack", organization: uuid.New()}
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	t.Parallel()
	of, secret := someJob(), mustSecret(t, plain)
	old, both, other := mustKeys(t, 1), mustKeys(t, 2, 1), mustKeys(t, 3)

	sealed := old.seal(of, secret)
	if got, err := both.open(of, sealed); err != nil || got.Reveal() != plain {
		t.Fatalf("an older key does not open: %v", err)
	}
	again := both.seal(of, secret)
	if _, err := old.open(of, again); !errors.Is(err, errUnknownKey) {
		t.Fatalf("sealed with the second key: got %v", err)
	}
	if got, err := mustKeys(t, 2).open(of, again); err != nil || got.Reveal() != plain {
		t.Fatalf("the first key does not open what it sealed: %v", err)
	}
	if _, err := other.open(of, sealed); !errors.Is(err, errUnknownKey) {
		t.Fatalf("a strange key: got %v", err)
	}
	if both.newest(sealed) || !both.newest(again) || !old.newest(sealed) {
		t.Error("which secret has the newest seal is told wrongly")
	}
}

func TestSealBoundToHolder(t *testing.T) {
	t.Parallel()
	of, keys := someJob(), mustKeys(t, 1, 2)
	sealed := keys.seal(of, mustSecret(t, plain))
	if bytes.Contains(sealed, []byte(plain)) {
		t.Fatal("it is not sealed")
	}
	if got, err := keys.open(of, sealed); err != nil || got.Reveal() != plain {
		t.Fatalf("open: %v", err)
	}
	for name, edit := range map[string]func(*holder){
		"another row":          func(h *holder) { h.id = uuid.New() },
		"another table":        func(h *holder) { h.kind = BySource },
		"another provider":     func(h *holder) { h.provider = "nylas" },
		"a longer provider":    func(h *holder) { h.provider += "2" },
		"no provider":          func(h *holder) { h.provider = "" },
		"another organization": func(h *holder) { h.organization = uuid.New() },
		"no organization":      func(h *holder) { h.organization = uuid.Nil },
		"row for organization": func(h *holder) { h.id, h.organization = h.organization, h.id },
	} {
		other := of
		edit(&other)
		if _, err := keys.open(other, sealed); !errors.Is(err, errAltered) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		for _, bits := range []byte{1, 3} { // of the version, 3 makes a 1 of a 2
			bad[i] = sealed[i] ^ bits
			if _, err := keys.open(of, bad); err == nil {
				t.Fatalf("byte %d altered: it opens", i)
			}
		}
	}
	for n := range sealed {
		if _, err := keys.open(of, sealed[:n]); err == nil {
			t.Fatalf("cut to %d bytes: it opens", n)
		}
	}
	if bytes.Equal(sealed, keys.seal(of, mustSecret(t, plain))) {
		t.Fatal("sealing twice gives the same: the nonce is not random")
	}
}

// What the build before sealed for the row below, in version 1 with the first key.
const (
	sealedV1 = "012a422c5e050da49d95f9e601fd6345607f35dfbe1495ecfdf82976efacc7bddd3de0287d939bb3b4ff7828c70239a43e4c3192"
	rowV1    = "019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d"
	plainV1  = "sealed by version 1"
)

func TestVersion1SealOpens(t *testing.T) {
	t.Parallel()
	keys, of := mustKeys(t, 1), someJob()
	of.id = uuid.MustParse(rowV1)
	sealed, err := hex.DecodeString(sealedV1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := keys.open(of, sealed); err != nil || got.Reveal() != plainV1 {
		t.Fatalf("%q, %v", got.Reveal(), err)
	}
	if keys.newest(sealed) {
		t.Error("version 1 counts as the newest")
	}
	elsewhere, source := of, of
	elsewhere.id, source.kind = uuid.New(), BySource
	for _, h := range []holder{elsewhere, source} {
		if _, err := keys.open(h, sealed); !errors.Is(err, errAltered) {
			t.Errorf("for %+v: got %v", h, err)
		}
	}
	sealed[0] = sealVersion
	if _, err := keys.open(of, sealed); !errors.Is(err, errAltered) {
		t.Errorf("as version 2: got %v", err)
	}
}
