package slack

import (
	"fmt"
	"strconv"
	"strings"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/providers"
)

// content is the fingerprint of an event without what may differ between the attempts to deliver it: when
// it is sent, whom it is sent for, and the deprecated verification token.
func content(root canonical.Value) string {
	return root.Fingerprint("token", "event_time", "event_context", "authorizations", "authed_users", "authed_teams")
}

// event reads the JSON of an event, a notice or an interaction, or whatever else it is.
func event(root canonical.Value) (providers.Delivery, error) {
	var s canonical.Strict
	n := namesIn(&s, root)
	if err := s.Err(); err != nil {
		return providers.Delivery{}, fmt.Errorf("%w: %w", providers.ErrMalformed, err)
	}
	d := providers.Delivery{
		Type:   root.Only("type").Text(),
		Tenant: n.tenant(),
		Named:  n.named(),
	}
	d.VendorID = eventID(d.Type, root)
	d.OrderingKey = channel(root)
	if d.Type == "event_callback" {
		inner := root.Only("event")
		d.OrderingKey = channel(inner)
		if kind := inner.Only("type").Text(); kind != "" {
			d.Type = kind
		}
	}
	return d, nil
}

// eventID is what is equal whenever Slack sends the same thing again, and is different otherwise; empty
// where Slack documents nothing that is: a view_closed, a block_suggestion, whatever is not known here.
func eventID(kind string, root canonical.Value) string {
	switch kind {
	case "event_callback":
		return root.Only("event_id").Text()
	case "app_rate_limited":
		minute := root.Only("minute_rate_limited")
		if minute.Kind() != canonical.Number {
			return ""
		}
		return join(kind, root.Only("api_app_id").Text(), root.Only("team_id").Text(), string(minute.Raw()))
	case "block_actions", "shortcut", "message_action", "interactive_message", "view_submission":
		if trigger := root.Only("trigger_id").Text(); trigger != "" {
			return trigger
		}
	}
	user := root.Only("user").Only("id").Text()
	switch {
	case kind == "block_actions":
		action := root.Only("actions").First()
		return join(kind, action.Only("action_ts").Text(), user, action.Only("action_id").Text())
	case kind == "view_submission":
		view := root.Only("view")
		return join(kind, view.Only("id").Text(), view.Only("hash").Text(), user)
	case strings.HasPrefix(kind, "dialog_"):
		return join(kind, root.Only("action_ts").Text())
	}
	return ""
}

// join makes one id of several parts, none of which may be missing, so that no two lists give the same
// one. The kind before them keeps it from being taken for an id of Slack's own.
func join(kind string, parts ...string) string {
	var id strings.Builder
	id.WriteString(kind)
	for _, part := range parts {
		if part == "" {
			return ""
		}
		id.WriteString(":" + strconv.Itoa(len(part)) + ":" + part)
	}
	return id.String()
}

// channel is where an event or an interaction took place: a channel's id, the channel itself, or the
// channel of the item it is about.
func channel(v canonical.Value) string {
	place := v.Only("channel")
	switch place.Kind() {
	case canonical.String:
		return place.Text()
	case canonical.Object:
		return place.Only("id").Text()
	default:
		return v.Only("item").Only("channel").Text()
	}
}
