package doctor

import (
	"fmt"
	"time"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
)

// FromCaptures returns a case for each capture. They must be the vendor's and carry the signature that came. received is
// when they were received; zero: each says so itself.
func FromCaptures(captures []*capture.Capture, vendor providers.Provider, received time.Time) ([]Case, error) {
	cases := make([]Case, 0, len(captures))
	for _, c := range captures {
		switch {
		case c.Provider != vendor.Name():
			return nil, fmt.Errorf("capture %s is of %s, not of %s", c.Name, c.Provider, vendor.Name())
		case c.Sign.Mode != capture.Kept && c.Sign.Mode != capture.Recorded:
			return nil, fmt.Errorf("capture %s has no original signature to examine: set GATEWAY_REJECTED_DIR, or use gateway import --keep-signature", c.Name)
		}
		unknown := false
		if !received.IsZero() {
			c.ReceivedAt = received
		} else {
			// An import knows only when the message says that it was signed.
			unknown = c.Sign.Mode == capture.Kept && c.ReceivedAt.Equal(capture.SignedAt(&capture.Message{Headers: c.Headers}, vendor))
		}
		cases = append(cases, Case{Capture: c, Vendor: vendor, TimeUnknown: unknown})
	}
	return cases, nil
}

// FromMessages returns a case for each HTTP message that was read from a file. received is when they were received;
// zero: each says so itself, or nothing does.
func FromMessages(file string, messages []*capture.Message, vendor providers.Provider, received time.Time) ([]Case, error) {
	cases := make([]Case, 0, len(messages))
	for i, m := range messages {
		unknown := m.At.IsZero() && received.IsZero()
		if !received.IsZero() {
			m.At = received
		} else if unknown {
			m.At = capture.SignedAt(m, vendor)
		}
		c, err := capture.Origin{Vendor: vendor, KeepSignature: true}.Capture(m)
		if err != nil {
			return nil, err
		}
		c.Name = fmt.Sprintf("%s %d", file, i+1)
		cases = append(cases, Case{Capture: c, Vendor: vendor, TimeUnknown: unknown})
	}
	return cases, nil
}
