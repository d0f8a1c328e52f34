package watch

import (
	"fmt"
	"math"
	"strconv"

	"webhook-gateway/drops"
)

// series is the expected result of an expression: a check for the value of each series, by its labels.
type series map[string]is

// is returns what a value should have been; empty when it is right.
type is func(float64) string

func exactly(want float64) is {
	return func(got float64) string {
		if got == want {
			return ""
		}
		return fmt.Sprint(want)
	}
}

// about allows for Prometheus's extrapolation from the last scrape to now.
func about(want float64) is {
	return func(got float64) string {
		if math.Abs(got-want) <= 0.06*math.Abs(want) {
			return ""
		}
		return fmt.Sprintf("about %v", want)
	}
}

func within(least, most float64) is {
	return func(got float64) string {
		if got >= least && got <= most {
			return ""
		}
		return fmt.Sprintf("%v to %v", least, most)
	}
}

// nothing accepts the quantile of no observations.
func nothing(got float64) string {
	if math.IsNaN(got) {
		return ""
	}
	return "NaN"
}

// perSecond expects the rate over five minutes, the value that the variables are filled with.
func perSecond(n int) is { return about(float64(n) / 300) }

// each returns one series for each key.
func each[K comparable](prefix string, of map[K]int, keys []K, value func(int) is) series {
	s := make(series)
	for _, k := range keys {
		s[prefix+fmt.Sprint(k)] = value(of[k])
	}
	return s
}

func merged(all ...series) series {
	s := make(series)
	for _, one := range all {
		for labels, value := range one {
			s[labels] = value
		}
	}
	return s
}

var (
	rejections = []string{"unsigned", "mismatch", "stale", "too_large", "slow", "broken", "no_secret", "unconfirmed", "overloaded"}
	statuses   = []int{200, 400, 401, 404, 408, 413, 503}
	tables     = []string{"idempotency_keys", "webhook_deliveries", "webhook_drops"}
)

// providers returns one series for each provider, from what was sent in its name.
func (l *live) providers(value func(*Sent) is) series {
	return series{"provider=nylas": value(l.Nylas()), "provider=slack": value(l.Slack())}
}

// total adds up both providers.
func (l *live) total(f func(*Sent) int) int { return f(l.Nylas()) + f(l.Slack()) }

func dropped(s *Sent) int { return s.Received() - s.Accepted - s.Failed }

// ofTables returns one series for each table that is swept.
func ofTables(value is) series {
	s := make(series)
	for _, table := range tables {
		s["table="+table] = value
	}
	return s
}

// oneDay expects the value for the old day of the inbox. A reader holds that day until PostgreSQL is stopped; the
// next sweep removes it.
func oneDay(value is) series {
	return merged(ofTables(exactly(0)), series{"table=webhook_deliveries": value})
}

// panels returns the expected result of each query of a panel.
func (l *live) panels() map[string]series {
	received := func(s *Sent) int { return s.Received() }
	accepted := func(s *Sent) int { return s.Accepted }
	failed := func(s *Sent) int { return s.Failed }
	here := "instance=" + l.gateway.Admin
	all := func(value is) series { return series{"": value} }
	want := map[string]series{
		"Accepted a second A":       all(perSecond(l.total(accepted))),
		"Dropped A":                 all(about(float64(l.total(dropped)) / float64(l.total(received)))),
		"Hash mismatches A":         all(about(2)),
		"Failed A":                  all(about(float64(l.total(failed)))),
		"Since the last delivery A": {"provider=nylas": within(0, 60)}, // Slack has sent none
		"Gateways A":                all(exactly(1)),

		"Accepted by provider A":                  l.providers(func(s *Sent) is { return perSecond(s.Accepted) }),
		"Received, and what became of it A":       all(perSecond(l.total(received))),
		"Received, and what became of it B":       all(exactly(0)),
		"Received, and what became of it C":       all(perSecond(l.total(accepted))),
		"Received, and what became of it D":       all(perSecond(l.total(dropped))),
		"Received, and what became of it E":       all(perSecond(l.total(failed))),
		"Waiting A":                               l.providers(func(*Sent) is { return exactly(0) }),
		"Verified signatures by secret A":         l.signatures(),
		"Verified signatures by secret B":         l.providers(func(s *Sent) is { return perSecond(s.Handshakes) }),
		"Drops by reason A":                       each("reason=", l.Nylas().Dropped, drops.Reasons(), perSecond),
		"Share dropped, by provider and reason A": l.share(),
		"Rejections by reason A":                  l.rejections(perSecond, ""),
		"Answers by status A":                     l.answers(),
		"Claims by outcome A":                     l.claims(),

		"ACK latency against the vendor's limit A": {"provider=nylas": within(0, 1), "provider=slack": nothing},
		"ACK latency against the vendor's limit B": {"provider=nylas": within(0, 2), "provider=slack": nothing},
		"ACK latency against the vendor's limit C": {"provider=nylas": exactly(10), "provider=slack": exactly(3)},
		"Answered within a second A":               {"provider=nylas": within(0.9, 1)},
		"Distance to switch-off A": l.providers(func(s *Sent) is {
			n, failed := s.Answered()
			return about(0.95 - float64(failed)/float64(n))
		}),

		"Deliveries in a transaction A": all(within(1, 120)),
		"Deliveries in a transaction B": all(within(1, 128)),
		"Settle time A":                 all(within(0.0001, 1)),
		"Settle time B":                 all(within(0.0001, 5)),

		"Connections A":              {"state=acquired": within(0, 14), "state=constructing": within(0, 14), "state=idle": within(1, 14)},
		"Connections B":              all(exactly(14)), // two committers, eight that settle singly, four
		"Waiting for a connection A": {here: within(0, 1)},
		"Connections handed out A":   all(within(0.1, 100)),
		"Connections handed out B":   all(within(0, 10)),

		"Swept A":                          oneDay(within(0, 1.1/300)),
		"Past retention and still there A": oneDay(within(0, 1)),
		"Since the last whole sweep A":     ofTables(within(0, 15)),
		"Inbox days ahead A":               all(within(7, 8)),

		"Age of sources and jobs A": {here: within(0, 10)},
		"Memory A":                  {here + ",job=gateway": within(5e6, 2e9)},
		"Processor A":               {here: within(0.0001, 2)},
	}
	return want
}

func (l *live) signatures() series {
	return series{
		"provider=nylas,secret=current": perSecond(l.Nylas().Current), "provider=nylas,secret=previous": perSecond(l.Nylas().Previous),
		"provider=slack,secret=current": exactly(0), "provider=slack,secret=previous": exactly(0),
	}
}

// share returns the shares for Nylas; Slack has sent nothing that could have a share.
func (l *live) share() series {
	return each("provider=nylas,reason=", l.Nylas().Dropped, drops.Reasons(), func(n int) is {
		return about(float64(n) / float64(l.Nylas().Received()))
	})
}

// rejections returns the series of both providers together, or of one.
func (l *live) rejections(value func(int) is, provider string) series {
	s := make(series)
	for _, reason := range rejections {
		switch n, m := l.Nylas().Rejected[reason], l.Slack().Rejected[reason]; provider {
		case "nylas":
			s["provider=nylas,reason="+reason] = value(n)
		case "slack":
			s["provider=slack,reason="+reason] = value(m)
		default:
			s["reason="+reason] = value(n + m)
		}
	}
	return s
}

func (l *live) answers() series {
	s := make(series)
	for _, status := range statuses {
		s["code="+strconv.Itoa(status)+",provider=nylas"] = perSecond(l.Nylas().Answers[status])
		s["code="+strconv.Itoa(status)+",provider=slack"] = perSecond(l.Slack().Answers[status])
	}
	return s
}

func (l *live) claims() series {
	n := l.Nylas()
	s := make(series)
	for outcome, count := range map[string]int{
		"claimed": n.Accepted, "completed": n.Dropped[drops.Duplicate], "conflict": n.Dropped[drops.HashMismatch], "processing": 0,
	} {
		s["outcome="+outcome+",scope=webhook.nylas"] = perSecond(count)
		s["outcome="+outcome+",scope=webhook.slack"] = exactly(0)
	}
	return s
}

// rules returns the expected result of each rule's expression.
func (l *live) rules() map[string]series {
	n, s := l.Nylas(), l.Slack()
	answered := func(s *Sent) float64 { all, _ := s.Answered(); return float64(all) }
	of := func(provider string, value is) series { return series{"provider=" + provider: value} }
	dropRates := merged(each("provider=nylas,reason=", n.Dropped, drops.Reasons(), perSecond),
		each("provider=slack,reason=", s.Dropped, drops.Reasons(), perSecond))
	rejectRates := merged(l.rejections(perSecond, "nylas"), l.rejections(perSecond, "slack"))
	rejectShares := merged(
		l.rejections(func(k int) is { return about(float64(k) / answered(n)) }, "nylas"),
		l.rejections(func(k int) is { return about(float64(k) / answered(s)) }, "slack"))
	rising := func(reason drops.Reason) series {
		return series{"provider=nylas,reason=" + string(reason): about(float64(n.Dropped[reason]))}
	}
	usual := each("provider=nylas,reason=", nil, drops.Reasons(), func(int) is { return exactly(0) })
	usual["provider=nylas,reason=unknown_job"] = exactly(0.5) // from history
	return map[string]series{
		"provider:gateway_deliveries_received:rate5m":              l.providers(func(s *Sent) is { return perSecond(s.Received()) }),
		"provider:gateway_deliveries_accepted:rate5m":              l.providers(func(s *Sent) is { return perSecond(s.Accepted) }),
		"provider_reason:gateway_deliveries_dropped:rate5m":        dropRates,
		"provider_reason:gateway_deliveries_dropped:ratio_rate5m":  l.share(),
		"provider_reason:gateway_deliveries_dropped:ratio_rate30m": l.share(),
		"provider_reason:gateway_deliveries_dropped:ratio_rate1d":  l.share(),
		"provider_reason:gateway_deliveries_dropped:ratio_usual":   usual,
		"provider:gateway_vendor_answers:rate5m":                   l.providers(func(s *Sent) is { return about(answered(s) / 300) }),
		"provider_reason:gateway_requests_rejected:rate5m":         rejectRates,
		"provider_reason:gateway_requests_rejected:ratio_rate5m":   rejectShares,
		"provider:gateway_ack_limit_seconds":                       {"provider=nylas": exactly(10), "provider=slack": exactly(3)},
		"provider:gateway_ack_duration_seconds:p50_rate5m":         {"provider=nylas": within(0, 1), "provider=slack": nothing},
		"provider:gateway_ack_duration_seconds:p99_rate5m":         {"provider=nylas": within(0, 2), "provider=slack": nothing},
		"provider:gateway_switch_off_failures:ratio": l.providers(func(s *Sent) is {
			all, failed := s.Answered()
			return about(float64(failed) / float64(all))
		}),

		"GatewayHashMismatch":         of("nylas", about(2)),
		"GatewayUnknownJobRising":     {}, // it was as bad yesterday
		"GatewayJobMismatchRising":    rising(drops.JobMismatch),
		"GatewayMalformedRising":      rising(drops.Malformed),
		"GatewayDuplicatesHigh":       rising(drops.Duplicate),
		"GatewayProviderSilent":       of("slack", exactly(0)),
		"GatewayRejectionsBurst":      {"provider=nylas,reason=unsigned": about(45), "provider=slack,reason=unsigned": about(950)},
		"GatewaySignaturesAllFailing": of("slack", about(60)),
		"GatewayTimestampsStale":      of("slack", about(100)),
		"GatewaySecretMissing":        of("nylas", about(6)),
		"GatewayAckNearLimit":         {},
		"GatewaySwitchOffNear":        of("slack", about(1)),
		"GatewaySettleFailing":        of("nylas", about(float64(n.Failed)/float64(n.Received()))),
		"GatewaySettleFault":          {},
		"GatewaySweepBehind":          {"table=webhook_deliveries": exactly(1)},
		"GatewaySweepStalled":         {},
		"GatewayInboxDayMissing":      {},
		"GatewayNotReady":             {},
		"GatewayLogLost":              {},
		"GatewaySecretsUnopened":      {},
		"GatewayDown":                 {"instance=" + deadGateway + ",job=gateway": exactly(0)},
	}
}
