package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// What is kept of refused requests, for each provider. Anybody can make a gateway refuse: keep few, briefly, and at a
// low rate.
const (
	refusedFiles   = 50
	refusedBytes   = 16 << 20
	refusedAMinute = 10
	refusedFor     = time.Hour
)

// How much may wait to be written. While the disk is too slow, further requests are not captured.
const (
	maxWaiting      = 256
	maxWaitingBytes = 32 << 20
)

// Directory holds the sources and jobs that requests name.
type Directory interface {
	Current() *jobs.Snapshot
}

// Options say what a Recorder keeps, and where. An empty folder turns off its half.
type Options struct {
	Folder  string // for verified requests
	Files   int    // how many, for each provider
	Bytes   int64  // bytes of their bodies, for each provider
	Refused string // for refused requests
	Vendors []providers.Provider
	Log     *slog.Logger
}

// Recorder writes captures of what a gateway receives. It is the gateway's observer: a request never waits for it and
// never fails because of it; what it cannot write is not captured. Only the owner can read the folders.
type Recorder struct {
	options   Options
	vendors   map[string]providers.Provider
	directory Directory

	mu       sync.Mutex
	waiting  []providers.Observation
	bytes    int64
	stopped  bool
	kept     map[string]*shelf // of verified requests, by provider
	trickle  map[string]*minute
	wake     chan struct{}
	finished chan struct{}
}

// shelf counts a provider's folder.
type shelf struct {
	files  int
	bytes  int64
	warned bool // that there is no more room
	full   bool // not even for a small one; guarded by the recorder's lock
}

type minute struct {
	start time.Time
	n     int
}

var _ providers.Observer = (*Recorder)(nil)

// NewRecorder makes the folders and starts a recorder. Stop ends it.
func NewRecorder(options Options, directory Directory) (*Recorder, error) {
	r := &Recorder{
		options: options, directory: directory,
		vendors: make(map[string]providers.Provider),
		kept:    make(map[string]*shelf), trickle: make(map[string]*minute),
		wake: make(chan struct{}, 1), finished: make(chan struct{}),
	}
	for _, p := range options.Vendors {
		r.vendors[p.Name()] = p
		r.kept[p.Name()], r.trickle[p.Name()] = &shelf{}, &minute{}
		for _, folder := range []string{options.Folder, options.Refused} {
			if folder == "" {
				continue
			}
			if err := os.MkdirAll(filepath.Join(folder, p.Name()), 0o700); err != nil {
				return nil, fmt.Errorf("make the folder of captures: %w", err)
			}
		}
		if options.Folder != "" {
			held, err := measure(filepath.Join(options.Folder, p.Name()))
			if err != nil {
				return nil, err
			}
			r.kept[p.Name()] = held
		}
	}
	go r.run()
	return r, nil
}

// measure counts the captures that a folder contains already.
func measure(folder string) (*shelf, error) {
	s := &shelf{}
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.Name() == File {
			s.files++
		} else {
			s.bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the captures: %w", err)
	}
	return s, nil
}

// WantsRefused implements providers.Observer.
func (r *Recorder) WantsRefused() bool { return r.options.Refused != "" }

// Observe implements providers.Observer.
func (r *Recorder) Observe(o providers.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || len(r.waiting) >= maxWaiting || r.bytes+int64(len(o.Body)) > maxWaitingBytes || !r.wants(o) {
		return
	}
	r.waiting = append(r.waiting, o)
	r.bytes += int64(len(o.Body))
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// wants reports whether there is room for a request.
func (r *Recorder) wants(o providers.Observation) bool {
	if o.VerifiedBy != (jobs.Verifier{}) {
		s, known := r.kept[o.Provider]
		return known && r.options.Folder != "" && !s.full
	}
	m, known := r.trickle[o.Provider]
	if !known || r.options.Refused == "" {
		return false
	}
	if now := o.ReceivedAt; now.Sub(m.start) >= time.Minute {
		*m = minute{start: now}
	}
	m.n++
	return m.n <= refusedAMinute
}

// Stop writes what is waiting, and returns when everything is written.
func (r *Recorder) Stop() {
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.wake)
	}
	r.mu.Unlock()
	<-r.finished
}

func (r *Recorder) run() {
	defer close(r.finished)
	forget := time.NewTicker(time.Minute)
	defer forget.Stop()
	for r.forget(time.Now()); ; {
		select {
		case _, goesOn := <-r.wake:
			for _, o := range r.take() {
				r.record(o)
			}
			if !goesOn {
				return
			}
		case now := <-forget.C:
			r.forget(now)
		}
	}
}

func (r *Recorder) take() []providers.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.waiting
	r.waiting, r.bytes = nil, 0
	return taken
}

// record writes one capture, or logs why not. The log quotes nothing of the request.
func (r *Recorder) record(o providers.Observation) {
	verified := o.VerifiedBy != jobs.Verifier{}
	c, err := r.capture(o)
	if err == nil && verified {
		err = r.keep(c)
	} else if err == nil {
		err = r.keepRefused(c)
	}
	if err != nil {
		r.options.Log.Warn("request not captured", "provider", o.Provider, "err", err)
	}
}

// named matches a recorder's folder: the time of receipt and a random part.
var named = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8}$`)

func nameOf(c *Capture) string {
	return c.ReceivedAt.UTC().Format("20060102T150405.000Z") + "-" + uuid.NewString()[:8]
}

// keep writes a verified request, unless the provider's folder is full.
func (r *Recorder) keep(c *Capture) error {
	s := r.kept[c.Provider]
	if s.files >= r.options.Files || s.bytes+int64(len(c.Content)) > r.options.Bytes {
		r.mu.Lock()
		s.full = s.files >= r.options.Files || s.bytes >= r.options.Bytes-(64<<10)
		r.mu.Unlock()
		if s.warned {
			return nil
		}
		s.warned = true
		return fmt.Errorf("the folder holds %d captures with %d bytes, and GATEWAY_CAPTURE_FILES and GATEWAY_CAPTURE_BYTES allow no more", s.files, s.bytes)
	}
	if err := c.Write(filepath.Join(r.options.Folder, c.Provider, nameOf(c)), Private); err != nil {
		return err
	}
	s.files++
	s.bytes += int64(len(c.Content))
	return nil
}

// keepRefused writes a refused request. If there is no room it replaces the oldest.
func (r *Recorder) keepRefused(c *Capture) error {
	if len(c.Content) > refusedBytes/4 {
		return errors.New("a refused request is too large to be kept")
	}
	folder := filepath.Join(r.options.Refused, c.Provider)
	if err := c.Write(filepath.Join(folder, nameOf(c)), Private); err != nil {
		return err
	}
	return trim(folder, time.Now())
}

// forget removes the refused requests that have expired.
func (r *Recorder) forget(now time.Time) {
	if r.options.Refused == "" {
		return
	}
	for provider := range r.vendors {
		if err := trim(filepath.Join(r.options.Refused, provider), now); err != nil {
			r.options.Log.Warn("refused requests not removed", "provider", provider, "err", err)
		}
	}
}

// trim removes the oldest of the recorder's captures from a folder until the rest is young and small enough.
func trim(folder string, now time.Time) error {
	entries, err := os.ReadDir(folder) // sorted: the oldest first
	if err != nil {
		return fmt.Errorf("list refused requests: %w", err)
	}
	var files int
	var bytes int64
	for i := len(entries) - 1; i >= 0; i-- {
		name := entries[i].Name()
		if !named.MatchString(name) {
			continue
		}
		held, err := measure(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		files++
		bytes += held.bytes
		at, err := time.Parse("20060102T150405.000Z", name[:20])
		if err == nil && now.Sub(at) < refusedFor && files <= refusedFiles && bytes <= refusedBytes {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("remove a refused request: %w", err)
		}
	}
	return nil
}
