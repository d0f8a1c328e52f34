package gateway

import (
	"fmt"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// newRecorder starts the recorder that the settings configure; nil if they configure none. Stop ends it.
func newRecorder(b Base, directory *jobs.Directory) (*capture.Recorder, error) {
	if b.Config.CaptureDir == "" && b.Config.RejectedDir == "" {
		return nil, nil
	}
	r, err := capture.NewRecorder(capture.Options{
		Folder: b.Config.CaptureDir, Files: b.Config.CaptureFiles, Bytes: b.Config.CaptureBytes, Refused: b.Config.RejectedDir,
		Vendors: b.Vendors, Log: b.Log,
	}, directory)
	if err != nil {
		return nil, SettingError{fmt.Errorf("GATEWAY_CAPTURE_DIR and GATEWAY_REJECTED_DIR: %w", err)}
	}
	return r, nil
}

// observer returns the recorder as an observer; nil without a recorder.
func observer(r *capture.Recorder) providers.Observer {
	if r == nil {
		return nil
	}
	return r
}
