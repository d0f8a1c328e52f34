package providers

import (
	"github.com/google/uuid"

	"webhook-gateway/drops"
)

// SourcePath is the path of a source's URL.
func SourcePath(provider, name string) string { return "/webhooks/" + provider + "/sources/" + name }

// JobPath is the path of the URL of a job that has its own secrets.
func JobPath(provider string, id uuid.UUID) string {
	return "/webhooks/" + provider + "/" + id.String()
}

// DropPath is the path of the URL that a dropped request called; empty when it is not known.
func DropPath(k drops.Kept) string {
	switch {
	case k.PathSource != "":
		return SourcePath(k.Provider, k.PathSource)
	case k.PathJob != uuid.Nil:
		return JobPath(k.Provider, k.PathJob)
	default:
		return ""
	}
}
