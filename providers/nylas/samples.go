package nylas

import (
	"net/http"
	"net/url"
	"time"

	"webhook-gateway/internal/samples"
	"webhook-gateway/jobs"
)

// Samples returns a sample of each kind of request.
func (*Provider) Samples() samples.Set {
	return samples.Set{
		Application: jobs.Identity{Name: "application_id", Value: "5a3c7c1e-0d0f-4b7c-9a51-5a3b1e0a11ce"},
		Tenants: []jobs.Identity{
			{Name: "grant_id", Value: "b1f7a0de-6c5e-4d6b-8f3e-9d0c5a3b2e10"},
			{Name: "account_id", Value: "2mrhdt1bzj1m7w0z5x3xx8q4k"}, // the old API's
		},
		Kinds: []samples.Kind{
			{Name: "message.created", About: "a message has arrived", Make: func(r samples.Names) samples.Sample {
				return sampleNotification(r, "message.created", "/google/emails/realtime", sampleMessage(r))
			}},
			{Name: "message.updated", About: "a message has changed", Make: func(r samples.Names) samples.Sample {
				return sampleNotification(r, "message.updated", "/google/emails/incremental", sampleMessage(r))
			}},
			{Name: "message.created.truncated", About: "a message whose body was too large to include", Make: func(r samples.Names) samples.Sample {
				message := sampleMessage(r)
				delete(message, "body")
				return sampleNotification(r, "message.created.truncated", "/google/emails/realtime", message)
			}},
			{Name: "event.updated", About: "a calendar event has changed", Make: func(r samples.Names) samples.Sample {
				return sampleNotification(r, "event.updated", "/google/events/incremental", samples.Object{
					"object": "event", "id": "evt" + samples.Random(20), "grant_id": r.Or("grant_id", "unknown-grant"),
					"calendar_id": "primary", "title": "Planning", "busy": true, "participants": nil,
				})
			}},
			{Name: "grant.expired", About: "a grant must be authenticated again", Make: func(r samples.Names) samples.Sample {
				return sampleNotification(r, "grant.expired", "/nylas/system", samples.Object{
					"code": 25009, "grant_id": r.Or("grant_id", "unknown-grant"), "integration_id": samples.Random(32), "provider": "google",
				})
			}},
			{Name: "booking.created", About: "names no tenant: it goes to the source's fallback job, or is dropped as unknown_job", Make: func(r samples.Names) samples.Sample {
				return sampleNotification(r, "booking.created", "/nylas/passthru", samples.Object{
					"object": "booking", "booking_id": samples.Random(20), "booking_ref": samples.Random(20), "configuration_id": samples.Random(20),
				})
			}},
			{Name: "deltas", About: "the old API's form: several deliveries in one request", Make: sampleDeltas},
			{Name: "challenge", About: "the handshake when a webhook is created; answered, never kept", Make: func(samples.Names) samples.Sample {
				challenge := samples.Random(16)
				return samples.Sample{Query: url.Values{"challenge": {challenge}}, Unsigned: true, Handshake: true, Answer: challenge, Attempt: samples.Same(nil)}
			}},
		},
	}
}

func sampleMessage(r samples.Names) samples.Object {
	return samples.Object{
		"object": "message", "id": samples.Random(16), "grant_id": r.Or("grant_id", "unknown-grant"), "thread_id": samples.Random(16),
		"subject": "Is it here yet?", "snippet": "Yes.", "body": "<p>Yes.</p>", "date": time.Now().Unix(),
		"from":   []samples.Object{{"email": "sam@example.com", "name": "Sam"}},
		"to":     []samples.Object{{"email": "kim@example.com", "name": "Kim"}},
		"unread": true, "starred": false, "folders": []string{"INBOX"}, "attachments": []samples.Object{},
	}
}

// sampleNotification wraps an object. Attempts differ only in their counter.
func sampleNotification(r samples.Names, typ, source string, about samples.Object) samples.Sample {
	id, now := samples.Random(26), time.Now().Unix()
	return samples.Sample{ContentType: samples.JSON, Attempt: func(n int) ([]byte, http.Header) {
		return samples.Object{
			"specversion": "1.0", "type": typ, "source": source, "id": id, "time": now, "webhook_delivery_attempt": n,
			"data": samples.Object{"application_id": r.Or("application_id", "unknown-application"), "object": about},
		}.Bytes(), nil
	}}
}

func sampleDeltas(r samples.Names) samples.Sample {
	var deltas []samples.Object
	for _, typ := range []string{"message.created", "thread.replied"} {
		deltas = append(deltas, samples.Object{
			"date": time.Now().Unix(), "object": "message", "type": typ,
			"object_data": samples.Object{
				"id": samples.Random(25), "object": "message", "account_id": r.Or("account_id", "unknown-account"),
				"namespace_id": r.Or("account_id", "unknown-account"), "attributes": nil, "metadata": nil,
			},
		})
	}
	return samples.Sample{ContentType: samples.JSON, Attempt: samples.Same(samples.Object{"deltas": deltas}.Bytes())}
}
