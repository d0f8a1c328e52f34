package inbox

import (
	"webhook-gateway/idempotency"
	"webhook-gateway/providers"
)

// Scope returns the idempotency scope of a vendor's deliveries.
func Scope(p providers.Provider) (idempotency.Scope, error) {
	return idempotency.NewScopeFor(providers.ScopeName(p.Name()), providers.Retention(p))
}

// Scopes returns the Scope of each vendor, by the vendor's name.
func Scopes(vendors []providers.Provider) (map[string]idempotency.Scope, error) {
	scopes := make(map[string]idempotency.Scope, len(vendors))
	for _, p := range vendors {
		scope, err := Scope(p)
		if err != nil {
			return nil, err
		}
		scopes[p.Name()] = scope
	}
	return scopes, nil
}
