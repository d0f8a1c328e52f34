package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"

	"webhook-gateway/providers"
)

// command reads a slash command, or whatever else a form without a payload is.
func command(form url.Values) (providers.Delivery, error) {
	for _, name := range []string{"team_id", "enterprise_id", "is_enterprise_install", "api_app_id"} {
		if len(form[name]) > 1 {
			return providers.Delivery{}, fmt.Errorf("%w: %s is repeated", providers.ErrMalformed, name)
		}
	}
	n := names{
		orgWide:     form.Get("is_enterprise_install") == "true",
		teams:       []string{form.Get("team_id")},
		enterprises: []string{form.Get("enterprise_id")},
		apps:        []string{form.Get("api_app_id")},
	}
	d := providers.Delivery{Tenant: n.tenant(), Named: n.named(), OrderingKey: only(form, "channel_id")}
	switch {
	case form.Has("command"):
		d.Type = "slash_command"
		d.VendorID = commandID(form)
	case form.Has("ssl_check"):
		d.Type = "ssl_check"
	}
	return d, nil
}

// commandID is the command's trigger or, where it has none, its response_url: hashed, because whoever has
// that URL may answer in the user's channel.
func commandID(form url.Values) string {
	if trigger := only(form, "trigger_id"); trigger != "" {
		return trigger
	}
	response := only(form, "response_url")
	if response == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(response))
	return "response_url:" + hex.EncodeToString(sum[:])
}

// only is a field's value when it has exactly one.
func only(form url.Values, name string) string {
	if len(form[name]) != 1 {
		return ""
	}
	return form[name][0]
}
