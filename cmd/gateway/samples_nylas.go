package main

import (
	"net/http"
	"net/url"
	"time"

	"webhook-gateway/jobs"
)

func nylasSamples() vendorSamples {
	return vendorSamples{
		provider:    "nylas",
		application: jobs.Identity{Name: "application_id", Value: "5a3c7c1e-0d0f-4b7c-9a51-5a3b1e0a11ce"},
		tenants: []jobs.Identity{
			{Name: "grant_id", Value: "b1f7a0de-6c5e-4d6b-8f3e-9d0c5a3b2e10"},
			{Name: "account_id", Value: "2mrhdt1bzj1m7w0z5x3xx8q4k"}, // the old API's
		},
		types: []sampleType{
			{"message.created", "a message has arrived", func(r named) sample {
				return nylasNotification(r, "message.created", "/google/emails/realtime", nylasSampleMessage(r))
			}},
			{"message.updated", "a message has changed", func(r named) sample {
				return nylasNotification(r, "message.updated", "/google/emails/incremental", nylasSampleMessage(r))
			}},
			{"message.created.truncated", "a message whose body was too large to include", func(r named) sample {
				message := nylasSampleMessage(r)
				delete(message, "body")
				return nylasNotification(r, "message.created.truncated", "/google/emails/realtime", message)
			}},
			{"event.updated", "a calendar event has changed", func(r named) sample {
				return nylasNotification(r, "event.updated", "/google/events/incremental", object{
					"object": "event", "id": "evt" + randomText(20), "grant_id": r.or("grant_id", "unknown-grant"),
					"calendar_id": "primary", "title": "Planning", "busy": true, "participants": nil,
				})
			}},
			{"grant.expired", "a grant must be authenticated again", func(r named) sample {
				return nylasNotification(r, "grant.expired", "/nylas/system", object{
					"code": 25009, "grant_id": r.or("grant_id", "unknown-grant"), "integration_id": randomText(32), "provider": "google",
				})
			}},
			{"booking.created", "names no tenant: it goes to the source's fallback job, or is dropped as unknown_job", func(r named) sample {
				return nylasNotification(r, "booking.created", "/nylas/passthru", object{
					"object": "booking", "booking_id": randomText(20), "booking_ref": randomText(20), "configuration_id": randomText(20),
				})
			}},
			{"deltas", "the old API's form: several deliveries in one request", nylasDeltas},
			{"challenge", "the handshake when a webhook is created; answered, never kept", func(named) sample {
				challenge := randomText(16)
				return sample{query: url.Values{"challenge": {challenge}}, unsigned: true, handshake: true, answer: challenge, attempt: same(nil)}
			}},
		},
	}
}

func nylasSampleMessage(r named) object {
	return object{
		"object": "message", "id": randomText(16), "grant_id": r.or("grant_id", "unknown-grant"), "thread_id": randomText(16),
		"subject": "Is it here yet?", "snippet": "Yes.", "body": "<p>Yes.</p>", "date": time.Now().Unix(),
		"from":   []object{{"email": "sam@example.com", "name": "Sam"}},
		"to":     []object{{"email": "kim@example.com", "name": "Kim"}},
		"unread": true, "starred": false, "folders": []string{"INBOX"}, "attachments": []object{},
	}
}

// nylasNotification wraps an object. An attempt differs from the one before in its counter alone.
func nylasNotification(r named, typ, source string, about object) sample {
	id, now := randomText(26), time.Now().Unix()
	return sample{contentType: jsonType, attempt: func(n int) ([]byte, http.Header) {
		return object{
			"specversion": "1.0", "type": typ, "source": source, "id": id, "time": now, "webhook_delivery_attempt": n,
			"data": object{"application_id": r.or("application_id", "unknown-application"), "object": about},
		}.bytes(), nil
	}}
}

func nylasDeltas(r named) sample {
	var deltas []object
	for _, typ := range []string{"message.created", "thread.replied"} {
		deltas = append(deltas, object{
			"date": time.Now().Unix(), "object": "message", "type": typ,
			"object_data": object{
				"id": randomText(25), "object": "message", "account_id": r.or("account_id", "unknown-account"),
				"namespace_id": r.or("account_id", "unknown-account"), "attributes": nil, "metadata": nil,
			},
		})
	}
	return sample{contentType: jsonType, attempt: same(object{"deltas": deltas}.bytes())}
}
