package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"webhook-gateway/providers"
)

const (
	signatureHeader = "X-Slack-Signature"
	timestampHeader = "X-Slack-Request-Timestamp"
	version         = "v0"
)

// tolerance is how far Slack allows the timestamp to be from the receiver's clock, in both directions.
const tolerance = 5 * 60 // seconds

// Prove reads the signature and its timestamp, only as Slack documents them. slack-go's verifier, which Verify uses,
// accepts more: the first of several headers, hex in upper case, and timestamps with a sign or leading zeros.
func (*Provider) Prove(h http.Header, now time.Time) (providers.Proof, error) {
	signatures, timestamps := h.Values(signatureHeader), h.Values(timestampHeader)
	if len(signatures) != 1 || len(timestamps) != 1 {
		return nil, providers.ErrUnsigned
	}
	signature, timestamp := signatures[0], timestamps[0]
	digits, ok := strings.CutPrefix(signature, version+"=")
	if !ok || len(digits) != hex.EncodedLen(sha256.Size) || strings.Trim(digits, "0123456789abcdef") != "" {
		return nil, providers.ErrUnsigned
	}
	if timestamp == "" || timestamp[0] == '0' || strings.Trim(timestamp, "0123456789") != "" {
		return nil, providers.ErrUnsigned
	}
	if !fresh(timestamp, now) {
		return nil, providers.ErrStale
	}
	return proof{http.Header{signatureHeader: {signature}, timestampHeader: {timestamp}}}, nil
}

// fresh reports whether a timestamp of decimal digits is within the tolerance. It counts in seconds and limits the
// digits, because a time.Duration spans only three centuries.
func fresh(timestamp string, now time.Time) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(timestamp) > 12 {
		return false
	}
	age := now.Unix() - seconds
	return -tolerance <= age && (age < tolerance || age == tolerance && now.Nanosecond() == 0)
}

// proof holds the two headers, alone and well-formed.
type proof struct {
	header http.Header
}

// Verify lets slack-go compare the signatures, but refuses a blank secret itself, because slack-go accepts one. It
// returns none of slack-go's errors: until v0.31 they contained the correct signature.
//
// slack-go checks the clock again. A request that reached Prove just in time may therefore fail here if its body was
// slow.
func (p proof) Verify(secret string, body []byte) bool {
	if strings.TrimSpace(secret) == "" {
		return false
	}
	verifier, err := slack.NewSecretsVerifier(p.header, secret)
	if err != nil {
		return false
	}
	if _, err := verifier.Write(body); err != nil {
		return false
	}
	return verifier.Ensure() == nil
}

// Sign returns the headers with which Slack would send this body at this time.
func Sign(secret string, at time.Time, body []byte) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s:%s:", version, timestamp)
	mac.Write(body)
	return http.Header{
		signatureHeader: {version + "=" + hex.EncodeToString(mac.Sum(nil))},
		timestampHeader: {timestamp},
	}
}

// Sign signs the body with the time.
func (*Provider) Sign(secret string, body []byte, at time.Time) http.Header {
	return Sign(secret, at, body)
}
