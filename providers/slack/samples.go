package slack

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/internal/samples"
	"webhook-gateway/jobs"
)

const (
	sampleChannel = "C0SAMPLE001"
	sampleUser    = "U0SAMPLE001"
)

// Samples returns a sample of each kind of request.
func (*Provider) Samples() samples.Set {
	return samples.Set{
		Application: jobs.Identity{Name: "api_app_id", Value: "A0SAMPLEAPP"},
		Tenants:     []jobs.Identity{{Name: "team_id", Value: "T0SAMPLE001"}},
		Kinds: []samples.Kind{
			{Name: "app_mention", About: "an event: somebody mentions the app", Make: func(r samples.Names) samples.Sample {
				return sampleEvent(r, samples.Object{"type": "app_mention", "text": "<@U0SAMPLEBOT> is it here yet?"})
			}},
			{Name: "message", About: "an event: a message in a channel", Make: func(r samples.Names) samples.Sample {
				return sampleEvent(r, samples.Object{"type": "message", "channel_type": "channel", "text": "hello"})
			}},
			{Name: "reaction_added", About: "an event without a channel", Make: func(r samples.Names) samples.Sample {
				return sampleEvent(r, samples.Object{"type": "reaction_added", "reaction": "tada", "item_user": sampleUser,
					"item": samples.Object{"type": "message", "channel": sampleChannel, "ts": timestamp(time.Now())}})
			}},
			{Name: "block_actions", About: "interactivity: a button is pressed (form with a payload)", Make: sampleAction},
			{Name: "slash_command", About: "a slash command (form)", Make: sampleCommand},
			{Name: "app_rate_limited", About: "Slack reports that it withholds events", Make: sampleRateLimit},
			{Name: "url_verification", About: "the handshake when a request URL is saved; answered, never kept", Make: sampleVerification},
			{Name: "ssl_check", About: "Slack's unsigned probe of a command URL; answered, never kept", Make: func(samples.Names) samples.Sample {
				form := url.Values{"ssl_check": {"1"}, "token": {samples.Random(24)}}
				return samples.Sample{ContentType: samples.Form, Unsigned: true, Handshake: true, Attempt: samples.Same([]byte(form.Encode()))}
			}},
		},
	}
}

func timestamp(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }

// sampleInstallation returns the installation that an event comes through: a workspace's, or a whole organization's.
func sampleInstallation(r samples.Names) (team, enterprise any, orgWide bool) {
	if e := r["enterprise_id"]; e != "" {
		enterprise = e
		if r["team_id"] == "" {
			return nil, enterprise, true
		}
	}
	return r.Or("team_id", "T0UNKNOWN01"), enterprise, false
}

// sampleEvent wraps an inner event. A retry has another time and token in its body, and its number in a header.
func sampleEvent(r samples.Names, event samples.Object) samples.Sample {
	now := time.Now()
	id := "Ev" + strings.ToUpper(samples.Random(9))
	team, enterprise, orgWide := sampleInstallation(r)
	event["user"], event["event_ts"] = sampleUser, timestamp(now)
	if event["item"] == nil {
		event["channel"], event["ts"] = sampleChannel, timestamp(now)
	}
	return samples.Sample{ContentType: samples.JSON, Attempt: func(n int) ([]byte, http.Header) {
		body := samples.Object{
			"token": samples.Random(24), "type": "event_callback",
			"team_id": team, "enterprise_id": enterprise, "api_app_id": r.Or("api_app_id", "A0SAMPLEAPP"),
			"event": event, "event_id": id, "event_time": now.Unix() + int64(n-1), "event_context": "4-" + samples.Random(40),
			"is_ext_shared_channel": false,
			"authorizations": []samples.Object{{
				"enterprise_id": enterprise, "team_id": team, "user_id": "U0SAMPLEBOT",
				"is_bot": true, "is_enterprise_install": orgWide,
			}},
		}.Bytes()
		if n == 1 {
			return body, nil
		}
		return body, http.Header{"X-Slack-Retry-Num": {strconv.Itoa(n - 1)}, "X-Slack-Retry-Reason": {"http_timeout"}}
	}}
}

// sampleTrigger returns a trigger id, unique for each interaction.
func sampleTrigger() string {
	return fmt.Sprintf("%d.%d.%s", time.Now().UnixNano(), 4242, samples.Random(32))
}

func sampleAction(r samples.Names) samples.Sample {
	team, enterprise, orgWide := sampleInstallation(r)
	payload := samples.Object{
		"type": "block_actions", "token": samples.Random(24), "api_app_id": r.Or("api_app_id", "A0SAMPLEAPP"),
		"trigger_id": sampleTrigger(), "is_enterprise_install": orgWide,
		"team": nil, "enterprise": nil,
		"user":         samples.Object{"id": sampleUser, "username": "sam", "team_id": team},
		"channel":      samples.Object{"id": sampleChannel, "name": "general"},
		"container":    samples.Object{"type": "message", "message_ts": timestamp(time.Now()), "channel_id": sampleChannel, "is_ephemeral": false},
		"response_url": "https://hooks.slack.com/actions/" + samples.Random(24),
		"actions": []samples.Object{{"type": "button", "action_id": "approve", "block_id": "b1", "value": "yes",
			"text": samples.Object{"type": "plain_text", "text": "Approve"}, "action_ts": timestamp(time.Now())}},
	}
	if team != nil {
		payload["team"] = samples.Object{"id": team, "domain": "sample"}
	}
	if enterprise != nil {
		payload["enterprise"] = samples.Object{"id": enterprise, "name": "Sample"}
	}
	form := url.Values{"payload": {string(payload.Bytes())}}
	return samples.Sample{ContentType: samples.Form, Attempt: samples.Same([]byte(form.Encode()))}
}

func sampleCommand(r samples.Names) samples.Sample {
	team, enterprise, orgWide := sampleInstallation(r)
	form := url.Values{
		"token": {samples.Random(24)}, "api_app_id": {r.Or("api_app_id", "A0SAMPLEAPP")}, "command": {"/weather"}, "text": {"94070"},
		"channel_id": {sampleChannel}, "channel_name": {"general"}, "user_id": {sampleUser}, "user_name": {"sam"},
		"response_url": {"https://hooks.slack.com/commands/" + samples.Random(24)}, "trigger_id": {sampleTrigger()},
		"is_enterprise_install": {strconv.FormatBool(orgWide)},
	}
	if team, ok := team.(string); ok {
		form.Set("team_id", team)
		form.Set("team_domain", "sample")
	}
	if enterprise, ok := enterprise.(string); ok {
		form.Set("enterprise_id", enterprise)
	}
	return samples.Sample{ContentType: samples.Form, Attempt: samples.Same([]byte(form.Encode()))}
}

func sampleRateLimit(r samples.Names) samples.Sample {
	team, _, _ := sampleInstallation(r)
	return samples.Sample{ContentType: samples.JSON, Attempt: samples.Same(samples.Object{
		"token": samples.Random(24), "type": "app_rate_limited", "team_id": team,
		// Slack sends a whole minute. This value differs from the last sample's, which it would repeat otherwise.
		"minute_rate_limited": time.Now().Unix(), "api_app_id": r.Or("api_app_id", "A0SAMPLEAPP"),
	}.Bytes())}
}

func sampleVerification(samples.Names) samples.Sample {
	challenge := samples.Random(40)
	return samples.Sample{ContentType: samples.JSON, Handshake: true, Answer: challenge, Attempt: samples.Same(samples.Object{
		"token": samples.Random(24), "challenge": challenge, "type": "url_verification",
	}.Bytes())}
}
