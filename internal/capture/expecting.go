package capture

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"webhook-gateway/drops"
	"webhook-gateway/providers"
)

// maxInflated bounds what a compressed body is inflated to here.
const maxInflated = 64 << 20

// Plain returns the body without its content encoding.
func (c *Capture) Plain() ([]byte, error) {
	plain, _, err := providers.Inflate(c.Value("Content-Encoding"), c.Content, maxInflated)
	if err != nil {
		return nil, fmt.Errorf("inflate the body: %w", err)
	}
	return plain, nil
}

// Deliveries parses the body as the vendor's code does; nil if it is malformed.
func (c *Capture) Deliveries(p providers.Provider) []providers.Delivery {
	plain, err := c.Plain()
	if err != nil {
		return nil
	}
	deliveries, err := p.Parse(c.Value("Content-Type"), plain)
	if err != nil {
		return nil
	}
	return deliveries
}

// ExpectItems returns what to expect of a request's deliveries at a gateway that has not received them. Each is kept,
// and later a duplicate if the vendor gives it an id; or it is dropped for its reason every time.
func ExpectItems(items []providers.Item) Expect {
	once := Result{Status: http.StatusOK, Outcomes: Outcomes{}}
	again := Result{Status: http.StatusOK, Outcomes: Outcomes{}}
	var e Expect
	seen := make(map[string]bool)
	for _, item := range items {
		switch {
		case item.Reason != "":
			once.drop(item.Reason)
			again.drop(item.Reason)
			continue
		case item.VendorID != "" && seen[item.VendorID]:
			once.Outcomes[string(drops.Duplicate)]++
			again.Outcomes[string(drops.Duplicate)]++
			continue
		case item.VendorID == "":
			again.Outcomes[Accepted]++
			again.Rows++
		default:
			again.Outcomes[string(drops.Duplicate)]++
		}
		seen[item.VendorID] = true
		once.Outcomes[Accepted]++
		once.Rows++
		if plainText(item.Type) && plainText(item.VendorID) && plainText(item.OrderingKey) {
			e.Stored = append(e.Stored, Row{Type: item.Type, ID: item.VendorID, Order: item.OrderingKey, Hash: item.Hash})
		}
	}
	if len(e.Stored) != once.Rows {
		e.Stored = nil // a text that cannot be stored unchanged is stored in another form
	}
	e.Once, e.Again = once, &again
	return e
}

// ExpectHandshake returns what to expect of a request that is answered and not kept.
func ExpectHandshake(answer string) Expect {
	once := Result{Status: http.StatusOK, Answer: answer, Outcomes: Outcomes{Handshake: 1}}
	again := once
	return Expect{Once: once, Again: &again}
}

func (r *Result) drop(reason drops.Reason) {
	r.Outcomes[string(reason)]++
	r.Drops++
}

func plainText(s string) bool {
	return len(s) <= 200 && strings.IndexFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) < 0
}
