package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// newRecorder starts the recorder that the settings ask for; nil when they ask for none. Stop ends it.
func newRecorder(b base, directory *jobs.Directory) (*capture.Recorder, error) {
	if b.cfg.CaptureDir == "" && b.cfg.RejectedDir == "" {
		return nil, nil
	}
	signing := make(map[string][]string)
	for _, v := range samples() {
		signing[v.provider] = v.signingHeaders()
	}
	r, err := capture.NewRecorder(capture.Options{
		Folder: b.cfg.CaptureDir, Files: b.cfg.CaptureFiles, Bytes: b.cfg.CaptureBytes, Refused: b.cfg.RejectedDir,
		Vendors: wired(), Signing: signing, Log: b.log,
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

// signingHeaders are the names of the headers that the vendor signs with.
func (v vendorSamples) signingHeaders() []string {
	var names []string
	for name := range v.sign("a secret", nil, time.Now()) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// signers sign as the vendors do, by provider.
func signers() map[string]capture.Signer {
	list := make(map[string]capture.Signer)
	for _, v := range samples() {
		list[v.provider] = func(secret string, body []byte, at time.Time) http.Header { return v.sign(secret, body, at) }
	}
	return list
}

// vendorsByName are the vendors of this build.
func vendorsByName() map[string]providers.Provider {
	list := make(map[string]providers.Provider)
	for _, p := range wired() {
		list[p.Name()] = p
	}
	return list
}
