package nylas

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"webhook-gateway/providers"
)

const secret = "UfZWFrkjsbg5bxLbax-y"

// vector is a signed request that somebody published.
type vector struct {
	Name      string `json:"name"`
	Secret    string `json:"secret"`
	Signature string `json:"signature"`
	Body      string `json:"body"`
	Verifies  bool   `json:"verifies"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no vectors")
	}
	return all
}

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			h.Set("x-nylas-signature", v.Signature)
			proof, err := New().Prove(h, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if got := proof.Verify(v.Secret, []byte(v.Body)); got != v.Verifies {
				t.Errorf("verified %v, want %v", got, v.Verifies)
			}
		})
	}
}

func TestProveForms(t *testing.T) {
	t.Parallel()
	valid := Sign(secret, []byte("body")).Get(signatureHeader)
	for _, c := range []struct {
		name   string
		values []string
		ok     bool
	}{
		{"as it is", []string{valid}, true},
		{"all zeros", []string{strings.Repeat("0", 64)}, true},
		{"none", nil, false},
		{"empty", []string{""}, false},
		{"twice", []string{valid, valid}, false},
		{"one and an empty one", []string{valid, ""}, false},
		{"a digit short", []string{valid[:63]}, false},
		{"a digit long", []string{valid + "0"}, false},
		{"two digits short", []string{valid[:62]}, false},
		{"two digits long", []string{valid + "00"}, false},
		{"upper case", []string{strings.ToUpper(valid)}, false},
		{"one digit in upper case", []string{"A" + valid[1:]}, false},
		{"prefixed", []string{"sha256=" + valid}, false},
		{"a blank before", []string{" " + valid[1:]}, false},
		{"no hex", []string{valid[:31] + "g" + valid[32:]}, false},
		{"two joined by a comma", []string{valid + ", " + valid}, false},
		{"not ASCII", []string{valid[:62] + "é"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for _, value := range c.values {
				h.Add("x-nylas-signature", value)
			}
			proof, err := New().Prove(h, time.Now())
			if c.ok != (err == nil) || c.ok != (proof != nil) {
				t.Fatalf("got %v, %v", proof, err)
			}
			if err != nil && (!errors.Is(err, providers.ErrUnsigned) || err.Error() != providers.ErrUnsigned.Error()) {
				t.Errorf("got %v, want bare ErrUnsigned", err)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"1"}`)
	const testEvents = "mock-webhook-secret" // signs the test events that Nylas's API sends
	for _, c := range []struct {
		name   string
		signed string // with this secret
		tried  string // this secret
		body   string
		ok     bool
	}{
		{"as it is", secret, secret, `{"id":"1"}`, true},
		{"another body", secret, secret, `{"id":"2"}`, false},
		{"a blank more", secret, secret, `{"id": "1"}`, false},
		{"no body", secret, secret, ``, false},
		{"another secret", secret, secret[1:], `{"id":"1"}`, false},
		{"a secret with a blank more", secret, secret + " ", `{"id":"1"}`, false},
		{"an empty secret", "", "", `{"id":"1"}`, false},
		{"a blank secret", " ", " ", `{"id":"1"}`, false},
		{"a secret of white space", " \t\n", " \t\n", `{"id":"1"}`, false},
		{"a test event", testEvents, secret, `{"id":"1"}`, false},
		{"a test event where its secret is registered", testEvents, testEvents, `{"id":"1"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			proof, err := New().Prove(Sign(c.signed, body), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if got := proof.Verify(c.tried, []byte(c.body)); got != c.ok {
				t.Errorf("verified %v, want %v", got, c.ok)
			}
		})
	}
}

func TestEverySignatureBit(t *testing.T) {
	t.Parallel()
	body := []byte("body")
	good, err := New().Prove(Sign(secret, body), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 256 {
		bad := good.(proof)
		bad[bit/8] ^= 1 << (bit % 8)
		if bad.Verify(secret, body) {
			t.Errorf("verified with bit %d changed", bit)
		}
	}
}

func TestCompressedSignature(t *testing.T) {
	t.Parallel()
	plain := []byte(`{"specversion":"1.0"}`)
	var wire bytes.Buffer
	w := gzip.NewWriter(&wire)
	_, _ = w.Write(plain)
	_ = w.Close()
	proof, err := New().Prove(Sign(secret, wire.Bytes()), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if !proof.Verify(secret, wire.Bytes()) || proof.Verify(secret, plain) {
		t.Error("the signature is not of the compressed bytes")
	}
}

func TestSignatureNeverGrowsStale(t *testing.T) {
	t.Parallel()
	for _, now := range []time.Time{{}, time.Unix(0, 0), time.Now().AddDate(100, 0, 0)} {
		if _, err := New().Prove(Sign(secret, nil), now); err != nil {
			t.Errorf("at %v: %v", now, err)
		}
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("c", maxChallenge)
	for _, c := range []struct {
		query, answer string
	}{
		{"challenge=gvvpd57bv7gsykbl", "gvvpd57bv7gsykbl"},
		{"other=1&challenge=x", "x"},
		{"challenge=a+b%7E%21", "a b~!"},
		{"challenge=" + longest, longest},
		{"challenge=" + longest + "c", ""},
		{"challenge=", ""},
		{"challenge", ""},
		{"", ""},
		{"Challenge=x", ""},
		{"challenge=x&challenge=x", ""},
		{"challenge=x%0Ay", ""},
		{"challenge=%00", ""},
		{"challenge=x%7F", ""},
		{"challenge=%C3%A9", ""},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		answer, ok := New().Challenge(query)
		if answer != c.answer || ok != (c.answer != "") {
			t.Errorf("%.40s: %q, %v; want %q", c.query, answer, ok, c.answer)
		}
	}
}

func TestNothingSecretIsKept(t *testing.T) {
	t.Parallel()
	for _, name := range New().Headers() {
		if name != strings.ToLower(name) || strings.Contains(name, "signature") || name == "cookie" || name == "authorization" {
			t.Errorf("keeps %s", name)
		}
	}
	if got := New().Name(); got != "nylas" {
		t.Errorf("name %q", got)
	}
}

func FuzzProve(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Signature, v.Secret, []byte(v.Body))
	}
	f.Add(strings.Repeat("A", 64), "", []byte(nil))
	form := regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	f.Fuzz(func(t *testing.T, signature, secret string, body []byte) {
		proof, err := New().Prove(http.Header{"X-Nylas-Signature": {signature}}, time.Now())
		if form.MatchString(signature) != (err == nil) || err != nil && !errors.Is(err, providers.ErrUnsigned) {
			t.Fatalf("%q: %v", signature, err)
		}
		if err != nil {
			return
		}
		want := strings.TrimSpace(secret) != "" && Sign(secret, body).Get("x-nylas-signature") == signature
		if got := proof.Verify(secret, body); got != want {
			t.Errorf("verified %v, want %v", got, want)
		}
	})
}
