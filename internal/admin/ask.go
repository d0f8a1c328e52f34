package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"webhook-gateway/internal/safetext"
)

// ErrURL says that a URL is not valid.
var ErrURL = errors.New("--url")

// Ask asks a gateway whether it is ready, and returns its answer, which is safe to print. Any status but 200 is an error.
func Ask(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("%w %q: %w", ErrURL, url, err)
	}
	// A proxy from the environment would hide the gateway.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("ask %s (is the gateway running, and is this its GATEWAY_ADMIN_LISTEN?): %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	text := safetext.Line(strings.TrimSpace(string(body)))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, text)
	}
	return text, nil
}
