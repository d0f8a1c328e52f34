package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"webhook-gateway/providers"
)

// command reads a slash command, or any other form without a payload.
func command(f fields) (providers.Delivery, error) {
	for _, name := range []string{"team_id", "enterprise_id", "is_enterprise_install", "api_app_id"} {
		if len(f[name]) > 1 {
			return providers.Delivery{}, fmt.Errorf("%w: %s is repeated", providers.ErrMalformed, name)
		}
	}
	n := names{
		orgWide:     f.only("is_enterprise_install") == "true",
		teams:       []string{f.only("team_id")},
		enterprises: []string{f.only("enterprise_id")},
		apps:        []string{f.only("api_app_id")},
	}
	d := providers.Delivery{Tenant: n.tenant(), Named: n.named(), OrderingKey: f.only("channel_id")}
	switch {
	case f.has("command"):
		d.Type = "slash_command"
		d.VendorID = commandID(f)
	case f.has("ssl_check"):
		d.Type = "ssl_check"
	}
	return d, nil
}

// commandID returns the command's trigger or, if it has none, a hash of its response_url. It is hashed because the
// URL lets its holder answer in the user's channel.
func commandID(f fields) string {
	if trigger := f.only("trigger_id"); trigger != "" {
		return trigger
	}
	response := f.only("response_url")
	if response == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(response))
	return "response_url:" + hex.EncodeToString(sum[:])
}
