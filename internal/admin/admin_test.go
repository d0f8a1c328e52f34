package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen string
		pprof  bool
		status int
	}{
		{"127.0.0.1:8081", true, http.StatusOK},
		{"127.0.0.1:8081", false, http.StatusNotFound},
		{"0.0.0.0:8081", true, http.StatusNotFound},
		{":8081", true, http.StatusNotFound},
	} {
		o := Options{Listen: tt.listen, Open: true, Pprof: tt.pprof}
		rec := httptest.NewRecorder()
		New(o, prometheus.NewRegistry(), nil).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil))
		if rec.Code != tt.status {
			t.Errorf("listening on %s, profiles %v: %d, want %d", tt.listen, tt.pprof, rec.Code, tt.status)
		}
	}
}

func TestUnreadyWhenStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		a := New(Options{}, reg, readAt{time.Now()})
		ask := func() int {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/readyz", nil))
			return w.Code
		}
		if got := ask(); got != 503 {
			t.Errorf("before it receives: %d", got)
		}
		a.SetReady()
		time.Sleep(10 * time.Second)
		if got := ask(); got != 200 {
			t.Errorf("after 10 s: %d", got)
		}
		time.Sleep(time.Second)
		if got := ask(); got != 503 {
			t.Errorf("after 11 s: %d", got)
		}
	})
}

// readAt is a directory that was read at a time, and not since.
type readAt struct{ time.Time }

func (r readAt) Age() time.Duration { return time.Since(r.Time) }
func (r readAt) ReadOnly() string   { return "" }
