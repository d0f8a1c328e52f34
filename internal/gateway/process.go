package gateway

import (
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"webhook-gateway/configs"
)

// tuneGC lets more garbage gather than Go's default. A gateway's live memory is small, so by default it would collect
// many times a second, and shrink the stacks of its connections each time. The limit is above the maximum of bodies and
// queue, and makes the collector eager when they fill up: a process with the default settings stays below 512 MiB. An
// operator's GOGC and GOMEMLIMIT win.
func tuneGC(cfg configs.Config) {
	const beside = 64 << 20 // connections, and the large bodies that are read at once
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.BodyBudgetBytes + cfg.QueueBytes + beside)
	}
}

// NewLogger returns a logger at the level that the settings name.
func NewLogger(w io.Writer, cfg configs.Config) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.LogLevel}))
}

// Build describes the build of this binary.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// ReadBuild returns the build of this binary.
func ReadBuild() Build {
	b := Build{Version: "unknown", Revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version, b.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
