package slack

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webhook-gateway/providers"
)

const secret = "8f742231b10e8888abcd99yyyzzz85a5"

// vector is a signed request that somebody published.
type vector struct {
	Name      string `json:"name"`
	Secret    string `json:"secret"`
	Timestamp string `json:"timestamp"`
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

func (v vector) header() http.Header {
	h := http.Header{}
	h.Set("x-slack-signature", v.Signature)
	h.Set("x-slack-request-timestamp", v.Timestamp)
	return h
}

// sleepUntil moves a bubble's clock.
func sleepUntil(t *testing.T, timestamp string, offset time.Duration) {
	t.Helper()
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(time.Unix(seconds, 0).Add(offset)))
}

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			if _, err := New().Prove(v.header(), time.Now()); !errors.Is(err, providers.ErrStale) {
				t.Errorf("today: %v, want ErrStale", err)
			}
			synctest.Test(t, func(t *testing.T) {
				for _, offset := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
					sleepUntil(t, v.Timestamp, offset)
					proof, err := New().Prove(v.header(), time.Now())
					if err != nil {
						t.Fatalf("at %v: %v", offset, err)
					}
					if got := proof.Verify(v.Secret, []byte(v.Body)); got != v.Verifies {
						t.Errorf("at %v: verified %v, want %v", offset, got, v.Verifies)
					}
				}
			})
		})
	}
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	at := time.Unix(1531420618, 0)
	for _, c := range []struct {
		now   time.Duration // after the timestamp
		fresh bool
	}{
		{0, true},
		{5 * time.Minute, true},
		{5*time.Minute + 1, false},
		{5*time.Minute + time.Second, false},
		{time.Hour, false},
		{-5 * time.Minute, true},
		{-5*time.Minute - 1, false},
		{-5*time.Minute + 1, true},
		{-5*time.Minute - time.Second, false},
		{-time.Hour, false},
	} {
		_, err := New().Prove(Sign(secret, at, nil), at.Add(c.now))
		if c.fresh != (err == nil) || err != nil && !errors.Is(err, providers.ErrStale) {
			t.Errorf("%v after the timestamp: %v, want fresh %v", c.now, err, c.fresh)
		}
	}
}

func TestTimestampsFarAwayAreStale(t *testing.T) {
	t.Parallel()
	for _, timestamp := range []string{
		"253402300799", "100000000000", "999999999999", "1000000000000", "99999999999", "9223372036", "9223372037", "9223372036854775807", "9223372036854775808", "18446744073709551616",
		"18446744075241000000", strings.Repeat("9", 400), "9223371974719179007", "9223371974719179008",
	} {
		h := Sign(secret, time.Now(), nil)
		h.Set("X-Slack-Request-Timestamp", timestamp)
		for _, now := range []time.Time{time.Unix(1531420618, 0), time.Unix(-1, 999), {}, time.Unix(math.MinInt64+10, 0), time.Now()} {
			if _, err := New().Prove(h, now); !errors.Is(err, providers.ErrStale) {
				t.Errorf("%.30s at %v: %v, want ErrStale", timestamp, now, err)
			}
		}
	}
}

func TestProveForms(t *testing.T) {
	t.Parallel()
	at := time.Unix(1531420618, 0)
	valid := Sign(secret, at, []byte("body"))
	signature, timestamp := valid.Get("X-Slack-Signature"), valid.Get("X-Slack-Request-Timestamp")
	digits := strings.TrimPrefix(signature, "v0=")
	for _, c := range []struct {
		name       string
		signatures []string
		timestamps []string
		ok         bool
	}{
		{"as it is", []string{signature}, []string{timestamp}, true},
		{"no signature", nil, []string{timestamp}, false},
		{"no timestamp", []string{signature}, nil, false},
		{"neither", nil, nil, false},
		{"an empty signature", []string{""}, []string{timestamp}, false},
		{"an empty timestamp", []string{signature}, []string{""}, false},
		{"two signatures", []string{signature, signature}, []string{timestamp}, false},
		{"two timestamps", []string{signature}, []string{timestamp, timestamp}, false},
		{"bare hex", []string{digits}, []string{timestamp}, false},
		{"another version", []string{"v1=" + digits}, []string{timestamp}, false},
		{"an upper-case version", []string{"V0=" + digits}, []string{timestamp}, false},
		{"a version twice", []string{"v0=" + signature}, []string{timestamp}, false},
		{"another sign", []string{"v0:" + digits}, []string{timestamp}, false},
		{"upper case", []string{"v0=" + strings.ToUpper(digits)}, []string{timestamp}, false},
		{"one digit in upper case", []string{"v0=A" + digits[1:]}, []string{timestamp}, false},
		{"a digit short", []string{signature[:66]}, []string{timestamp}, false},
		{"two digits short", []string{signature[:65]}, []string{timestamp}, false},
		{"no digits", []string{"v0="}, []string{timestamp}, false},
		{"a digit long", []string{signature + "0"}, []string{timestamp}, false},
		{"two digits long", []string{signature + "00"}, []string{timestamp}, false},
		{"no hex", []string{signature[:66] + "g"}, []string{timestamp}, false},
		{"a blank before", []string{" " + signature}, []string{timestamp}, false},
		{"two joined by a comma", []string{signature + "," + signature}, []string{timestamp}, false},
		{"a plus", []string{signature}, []string{"+" + timestamp}, false},
		{"a minus", []string{signature}, []string{"-" + timestamp}, false},
		{"a leading zero", []string{signature}, []string{"0" + timestamp}, false},
		{"a zero", []string{signature}, []string{"0"}, false},
		{"a fraction", []string{signature}, []string{timestamp + ".0"}, false},
		{"an exponent", []string{signature}, []string{"15e8"}, false},
		{"a blank in the timestamp", []string{signature}, []string{timestamp + " "}, false},
		{"hex for a timestamp", []string{signature}, []string{"0x5b479d0a"}, false},
		{"underscores", []string{signature}, []string{"1_531_420_618"}, false},
		{"digits of another script", []string{signature}, []string{"١٥٣١٤٢٠٦١٨"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for _, value := range c.signatures {
				h.Add("x-slack-signature", value)
			}
			for _, value := range c.timestamps {
				h.Add("x-slack-request-timestamp", value)
			}
			proof, err := New().Prove(h, at)
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
	for _, c := range []struct {
		name          string
		signed, tried string // with these secrets
		body          string
		change        func(http.Header)
		ok            bool
	}{
		{"as it is", secret, secret, "body", nil, true},
		{"another body", secret, secret, "Body", nil, false},
		{"no body", secret, secret, "", nil, false},
		{"a byte more", secret, secret, "body\n", nil, false},
		{"another secret", secret, secret[1:], "body", nil, false},
		{"a secret with a blank more", secret, secret + " ", "body", nil, false},
		{"an empty secret", "", "", "body", nil, false},
		{"a blank secret", " ", " ", "body", nil, false},
		{"a secret of white space", "\t\n ", "\t\n ", "body", nil, false},
		{"another timestamp", secret, secret, "body", func(h http.Header) {
			h.Set("X-Slack-Request-Timestamp", strconv.FormatInt(time.Now().Unix()+1, 10))
		}, false},
		{"another signature", secret, secret, "body", func(h http.Header) {
			h.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := Sign(c.signed, time.Now(), []byte("body"))
			if c.change != nil {
				c.change(h)
			}
			proof, err := New().Prove(h, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if got := proof.Verify(c.tried, []byte(c.body)); got != c.ok {
				t.Errorf("verified %v, want %v", got, c.ok)
			}
			if again := proof.Verify(c.tried, []byte(c.body)); again != c.ok {
				t.Errorf("verified %v the second time, want %v", again, c.ok)
			}
		})
	}
}

// slack-go's own look at the clock is one more guard: what was recorded cannot be verified later.
func TestRecordedRequest(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	synctest.Test(t, func(t *testing.T) {
		sleepUntil(t, v.Timestamp, 0)
		proof, err := New().Prove(v.header(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sleepUntil(t, v.Timestamp, 5*time.Minute+1)
		if proof.Verify(v.Secret, []byte(v.Body)) {
			t.Error("verified after its time")
		}
	})
}

func FuzzProve(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Signature, v.Timestamp, v.Secret, []byte(v.Body), int64(1531420618))
	}
	f.Add("v0="+strings.Repeat("0", 64), "99999999999", " ", []byte(nil), int64(-1))
	form, canonical := regexp.MustCompile(`\Av0=[0-9a-f]{64}\z`), regexp.MustCompile(`\A[1-9][0-9]*\z`)
	f.Fuzz(func(t *testing.T, signature, timestamp, secret string, body []byte, now int64) {
		h := http.Header{"X-Slack-Signature": {signature}, "X-Slack-Request-Timestamp": {timestamp}}
		clock := time.Unix(now%(1<<40), 0)
		proof, err := New().Prove(h, clock)
		wellFormed := form.MatchString(signature) && canonical.MatchString(timestamp)
		if errors.Is(err, providers.ErrUnsigned) == wellFormed {
			t.Fatalf("%q at %q: %v", signature, timestamp, err)
		}
		if wellFormed {
			seconds, unreadable := strconv.ParseInt(timestamp, 10, 64)
			near := unreadable == nil && seconds >= clock.Unix()-tolerance && seconds <= clock.Unix()+tolerance
			if near != (err == nil) {
				t.Fatalf("%q at %v: %v", timestamp, clock, err)
			}
		}
		if err == nil && proof.Verify(secret, body) {
			seconds, _ := strconv.ParseInt(timestamp, 10, 64)
			if want := Sign(secret, time.Unix(seconds, 0), body).Get("x-slack-signature"); want != signature {
				t.Error("verified what Sign does not sign")
			}
		}
	})
}
