package main

import (
	"testing"
	"time"

	"webhook-gateway/internal/inbox"
	"webhook-gateway/providers"
	"webhook-gateway/providers/slack"
)

// plainVendor is a vendor without a retention.
type plainVendor struct{ providers.Provider }

func (plainVendor) Name() string { return "plain" }

// foreverVendor is a vendor with a wrong one.
type foreverVendor struct{ plainVendor }

func (foreverVendor) Retention() time.Duration { return 0 }

func TestScopesOfVendors(t *testing.T) {
	t.Parallel()
	scopes, err := inbox.Scopes(append(vendors(), plainVendor{slack.New()}))
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for name, want := range map[string]time.Duration{"nylas": day, "slack": 2 * day, "plain": 7 * day} {
		if s := scopes[name]; s.Retention() != want || s.String() != "webhook."+name {
			t.Errorf("%s: scope %s, retention %s, want %s", name, s, s.Retention(), want)
		}
	}
	if _, err := inbox.Scopes([]providers.Provider{foreverVendor{}}); err == nil {
		t.Error("accepted a retention of 0")
	}
}
