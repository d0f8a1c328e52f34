package configs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"webhook-gateway/internal/dsn"
)

const redacted = "[redacted]"

// Secret is a setting that is never shown: it prints, logs and encodes as [redacted].
type Secret struct {
	// A pointer, because fmt prints unexported fields of an outer struct without calling their methods.
	text *string
}

// Reveal returns the text; empty if it is not set.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// UnmarshalText accepts any text. It never fails.
func (s *Secret) UnmarshalText(text []byte) error {
	if held := string(text); held != "" {
		s.text = &held
	}
	return nil
}

// NewSecret returns a Secret with the text, for a caller that builds settings instead of loading them.
func NewSecret(text string) Secret { return Secret{text: &text} }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Networks is a list of networks. A single address is a network of one.
type Networks []netip.Prefix

// UnmarshalText reads addresses and networks, separated by commas.
func (n *Networks) UnmarshalText(text []byte) error {
	*n = nil
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		network, err := netip.ParsePrefix(part)
		if address, single := netip.ParseAddr(part); single == nil && address.Zone() == "" {
			network, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			return err
		}
		*n = append(*n, network.Masked())
	}
	return nil
}

// String lists them, separated by commas.
func (n Networks) String() string {
	parts := make([]string, len(n))
	for i, network := range n {
		parts[i] = network.String()
	}
	return strings.Join(parts, ", ")
}

// hostOf returns the part of a database address that may be shown. User and query may contain a password.
func hostOf(text string) string {
	if place := dsn.Place(text); place != "" {
		return place + " (user, password and parameters not shown)"
	}
	return redacted
}

type unit struct {
	name  string
	bytes int64
}

func units() []unit { return []unit{{"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}} }

// parseBytes reads a size: a number of bytes, or a number with KiB, MiB or GiB.
func parseBytes(text string) (int64, error) {
	number, scale := strings.TrimSpace(text), int64(1)
	for _, u := range units() {
		if before, found := strings.CutSuffix(number, u.name); found {
			number, scale = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/scale {
		return 0, errors.New("no size")
	}
	return n * scale, nil
}

// formatBytes formats a size so that parseBytes can read it.
func formatBytes(n int64) string {
	for _, u := range units() {
		if u.bytes > 1 && n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
