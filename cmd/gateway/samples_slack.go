package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/jobs"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"

	sampleChannel = "C0SAMPLE001"
	sampleUser    = "U0SAMPLE001"
)

func slackSamples() vendorSamples {
	return vendorSamples{
		provider:    "slack",
		application: jobs.Identity{Name: "api_app_id", Value: "A0SAMPLEAPP"},
		tenants:     []jobs.Identity{{Name: "team_id", Value: "T0SAMPLE001"}},
		types: []sampleType{
			{"app_mention", "an event: somebody mentions the app", func(r named) sample {
				return slackSampleEvent(r, object{"type": "app_mention", "text": "<@U0SAMPLEBOT> is it here yet?"})
			}},
			{"message", "an event: a message in a channel", func(r named) sample {
				return slackSampleEvent(r, object{"type": "message", "channel_type": "channel", "text": "hello"})
			}},
			{"reaction_added", "an event without a channel", func(r named) sample {
				return slackSampleEvent(r, object{"type": "reaction_added", "reaction": "tada", "item_user": sampleUser,
					"item": object{"type": "message", "channel": sampleChannel, "ts": slackTime(time.Now())}})
			}},
			{"block_actions", "interactivity: a button is pressed (form with a payload)", slackAction},
			{"slash_command", "a slash command (form)", slackCommand},
			{"app_rate_limited", "Slack reports that it withholds events", slackRateLimited},
			{"url_verification", "the handshake when a request URL is saved; answered, never kept", slackVerification},
			{"ssl_check", "Slack's unsigned probe of a command URL; answered, never kept", func(named) sample {
				form := url.Values{"ssl_check": {"1"}, "token": {randomText(24)}}
				return sample{contentType: formType, unsigned: true, handshake: true, attempt: same([]byte(form.Encode()))}
			}},
		},
	}
}

func slackTime(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }

// slackInstallation says through which installation an event comes: a workspace's, or a whole organization's.
func slackInstallation(r named) (team, enterprise any, orgWide bool) {
	if e := r["enterprise_id"]; e != "" {
		enterprise = e
		if r["team_id"] == "" {
			return nil, enterprise, true
		}
	}
	return r.or("team_id", "T0UNKNOWN01"), enterprise, false
}

// slackSampleEvent wraps an inner event. A retry has another time and another token in it, and tells its number.
func slackSampleEvent(r named, event object) sample {
	now := time.Now()
	id := "Ev" + strings.ToUpper(randomText(9))
	team, enterprise, orgWide := slackInstallation(r)
	event["user"], event["event_ts"] = sampleUser, slackTime(now)
	if event["item"] == nil {
		event["channel"], event["ts"] = sampleChannel, slackTime(now)
	}
	return sample{contentType: jsonType, attempt: func(n int) ([]byte, http.Header) {
		body := object{
			"token": randomText(24), "type": "event_callback",
			"team_id": team, "enterprise_id": enterprise, "api_app_id": r.or("api_app_id", "A0SAMPLEAPP"),
			"event": event, "event_id": id, "event_time": now.Unix() + int64(n-1), "event_context": "4-" + randomText(40),
			"is_ext_shared_channel": false,
			"authorizations": []object{{
				"enterprise_id": enterprise, "team_id": team, "user_id": "U0SAMPLEBOT",
				"is_bot": true, "is_enterprise_install": orgWide,
			}},
		}.bytes()
		if n == 1 {
			return body, nil
		}
		return body, http.Header{"X-Slack-Retry-Num": {strconv.Itoa(n - 1)}, "X-Slack-Retry-Reason": {"http_timeout"}}
	}}
}

// slackTrigger is unique per interaction.
func slackTrigger() string {
	return fmt.Sprintf("%d.%d.%s", time.Now().UnixNano(), 4242, randomText(32))
}

func slackAction(r named) sample {
	team, enterprise, orgWide := slackInstallation(r)
	payload := object{
		"type": "block_actions", "token": randomText(24), "api_app_id": r.or("api_app_id", "A0SAMPLEAPP"),
		"trigger_id": slackTrigger(), "is_enterprise_install": orgWide,
		"team": nil, "enterprise": nil,
		"user":         object{"id": sampleUser, "username": "sam", "team_id": team},
		"channel":      object{"id": sampleChannel, "name": "general"},
		"container":    object{"type": "message", "message_ts": slackTime(time.Now()), "channel_id": sampleChannel, "is_ephemeral": false},
		"response_url": "https://hooks.slack.com/actions/" + randomText(24),
		"actions": []object{{"type": "button", "action_id": "approve", "block_id": "b1", "value": "yes",
			"text": object{"type": "plain_text", "text": "Approve"}, "action_ts": slackTime(time.Now())}},
	}
	if team != nil {
		payload["team"] = object{"id": team, "domain": "sample"}
	}
	if enterprise != nil {
		payload["enterprise"] = object{"id": enterprise, "name": "Sample"}
	}
	form := url.Values{"payload": {string(payload.bytes())}}
	return sample{contentType: formType, attempt: same([]byte(form.Encode()))}
}

func slackCommand(r named) sample {
	team, enterprise, orgWide := slackInstallation(r)
	form := url.Values{
		"token": {randomText(24)}, "api_app_id": {r.or("api_app_id", "A0SAMPLEAPP")}, "command": {"/weather"}, "text": {"94070"},
		"channel_id": {sampleChannel}, "channel_name": {"general"}, "user_id": {sampleUser}, "user_name": {"sam"},
		"response_url": {"https://hooks.slack.com/commands/" + randomText(24)}, "trigger_id": {slackTrigger()},
		"is_enterprise_install": {strconv.FormatBool(orgWide)},
	}
	if team, ok := team.(string); ok {
		form.Set("team_id", team)
		form.Set("team_domain", "sample")
	}
	if enterprise, ok := enterprise.(string); ok {
		form.Set("enterprise_id", enterprise)
	}
	return sample{contentType: formType, attempt: same([]byte(form.Encode()))}
}

func slackRateLimited(r named) sample {
	team, _, _ := slackInstallation(r)
	return sample{contentType: jsonType, attempt: same(object{
		"token": randomText(24), "type": "app_rate_limited", "team_id": team,
		// The vendor's is a whole minute. This one differs from the sample before, which it would repeat otherwise.
		"minute_rate_limited": time.Now().Unix(), "api_app_id": r.or("api_app_id", "A0SAMPLEAPP"),
	}.bytes())}
}

func slackVerification(named) sample {
	challenge := randomText(40)
	return sample{contentType: jsonType, handshake: true, answer: challenge, attempt: same(object{
		"token": randomText(24), "challenge": challenge, "type": "url_verification",
	}.bytes())}
}
