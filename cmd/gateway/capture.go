package main

import (
	"fmt"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// newRecorder starts the recorder that the settings ask for; nil when they ask for none. Stop ends it.
func newRecorder(b base, directory *jobs.Directory) (*capture.Recorder, error) {
	if b.cfg.CaptureDir == "" && b.cfg.RejectedDir == "" {
		return nil, nil
	}
	r, err := capture.NewRecorder(capture.Options{
		Folder: b.cfg.CaptureDir, Files: b.cfg.CaptureFiles, Bytes: b.cfg.CaptureBytes, Refused: b.cfg.RejectedDir,
		Vendors: wired(), Log: b.log,
	}, directory)
	if err != nil {
		return nil, settingError{fmt.Errorf("GATEWAY_CAPTURE_DIR and GATEWAY_REJECTED_DIR: %w", err)}
	}
	return r, nil
}

// observer is the recorder as what looks on; nothing does when there is none.
func observer(r *capture.Recorder) providers.Observer {
	if r == nil {
		return nil
	}
	return r
}

// vendorsByName are the vendors of this build.
func vendorsByName() map[string]providers.Provider {
	list := make(map[string]providers.Provider)
	for _, p := range wired() {
		list[p.Name()] = p
	}
	return list
}
