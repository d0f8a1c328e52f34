package inbox

import (
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// Scopes returns the idempotency scope of each vendor's deliveries, webhook.<vendor>, by the vendor's name.
func Scopes(vendors []providers.Provider) (map[string]idempotency.Scope, error) {
	scopes := make(map[string]idempotency.Scope, len(vendors))
	for _, p := range vendors {
		name := "webhook." + p.Name()
		var scope idempotency.Scope
		var err error
		if r, ok := p.(providers.Retainer); ok {
			scope, err = idempotency.NewScopeFor(name, r.Retention())
		} else {
			scope, err = idempotency.NewScope(name)
		}
		if err != nil {
			return nil, err
		}
		scopes[p.Name()] = scope
	}
	return scopes, nil
}
