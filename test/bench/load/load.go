// Package load sends signed webhooks to a gateway from another process at little cost: it prepares the requests
// before the clock starts, and reads only the status of an answer.
package load

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Spec says what to send, to whom and how fast.
type Spec struct {
	Addresses   []string      `json:"addresses"` // host:port; the connections are spread over them
	Path        string        `json:"path"`
	Secret      string        `json:"secret"`
	Application string        `json:"application"`
	Tenants     []string      `json:"tenants"` // grants; accounts for Deltas
	Shape       Shape         `json:"shape"`
	Run         string        `json:"run"` // makes the ids differ from those of other runs
	Connections int           `json:"connections"`
	Rate        float64       `json:"rate"` // requests a second, evenly spaced; 0: each connection sends when it is answered
	Warm        time.Duration `json:"warm"` // time before anything counts
	Measure     time.Duration `json:"measure"`
	Requests    int           `json:"requests"` // how many are prepared
	// Repeat sends the prepared requests once before anything counts, and then again and again: every request that
	// counts is a duplicate.
	Repeat bool `json:"repeat"`
}

// Result holds the counts and times of a load.
type Result struct {
	Answered  int           `json:"answered"`   // 200s within the time measured
	Elapsed   time.Duration `json:"elapsed"`    // the time measured; shorter when the requests ran out
	RanOut    bool          `json:"ran_out"`    // of prepared requests
	AllOK     int           `json:"all_ok"`     // 200s of the whole run
	AllSent   int           `json:"all_sent"`   // requests of the whole run
	Refused   map[int]int   `json:"refused"`    // other answers of the whole run, by status
	Broken    int           `json:"broken"`     // requests without an answer
	BodyBytes int           `json:"body_bytes"` // of one request
	CPU       time.Duration `json:"cpu"`        // of this process, whole run without the preparation
	P50       time.Duration `json:"p50"`        // of the answers measured; at a Rate, from the instant when
	P99       time.Duration `json:"p99"`        // the request was due, whether or not it could be sent then
	Max       time.Duration `json:"max"`
}

// PerSecond returns the measured answers a second.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Elapsed.Seconds()
}

// Serve is the load process: it reads a Spec from in, writes a line just before the first request, and the Result
// when it is done.
func Serve(in io.Reader, out io.Writer) error {
	var spec Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	prepared, err := prepare(&spec)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, `"begun"`); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1) // little is allocated from here on
	result, err := send(&spec, prepared)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// latencies are in microseconds, one for each answer.
type latencies []uint32

func (l *latencies) add(d time.Duration) {
	*l = append(*l, uint32(min(max(d.Microseconds(), 0), 1<<32-1)))
}

// into sorts the latencies and fills in the result.
func (l latencies) into(r *Result) {
	if len(l) == 0 {
		return
	}
	slices.Sort(l)
	at := func(q float64) time.Duration { return time.Duration(l[int(q*float64(len(l)-1))]) * time.Microsecond }
	r.P50, r.P99, r.Max = at(.5), at(.99), at(1)
}
