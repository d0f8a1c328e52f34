package providers

import "github.com/google/uuid"

// SourcePath is the path of a source's URL.
func SourcePath(provider, name string) string { return "/webhooks/" + provider + "/sources/" + name }

// JobPath is the path of the URL of a job that has its own secrets.
func JobPath(provider string, id uuid.UUID) string {
	return "/webhooks/" + provider + "/" + id.String()
}
