package connections

import (
	"log/slog"
	"testing"
)

func TestFitFiles(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	if got := FitFiles(64, log); got != 64 {
		t.Errorf("64 became %d", got)
	}
	const many = 1 << 40
	if got := FitFiles(many, log); got >= many || got < 64 {
		t.Errorf("more than any process may open became %d", got)
	}
}
