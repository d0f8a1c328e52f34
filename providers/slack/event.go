package slack

import (
	"fmt"
	"strconv"
	"strings"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/providers"
)

// content returns the fingerprint of an event without what may differ between attempts to deliver it: the time of
// sending, the installations it is sent for, and the deprecated verification token.
func content(root canonical.Value) string {
	return root.Fingerprint("token", "event_time", "event_context", "authorizations", "authed_users", "authed_teams")
}

// event reads the JSON of an event, a notice, an interaction, or anything else.
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

// eventID returns an id that stays equal when Slack sends the same thing again, and differs otherwise. It is empty
// for kinds for which Slack documents no such id: view_closed, block_suggestion, unknown ones.
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

// join makes one id from several parts, so that two different lists never give the same id. It returns "" if a part
// is missing. The kind in front distinguishes it from Slack's own ids.
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

// channel returns the id of the channel where an event or an interaction took place. It is given as a text, in an
// object, or for the item that the event is about.
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
