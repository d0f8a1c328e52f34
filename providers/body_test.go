package providers_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// wire is a door on a socket.
type wire struct {
	*door
	t       *testing.T
	address string
	path    string
}

const wireBody = 1 << 20 // the largest body, a quarter of the budget

func newWire(t *testing.T) *wire {
	d := newDoorOf(t, providers.Limits{Body: wireBody, BodyBudget: 4 * wireBody, Read: time.Minute, Settle: time.Minute})
	s := httptest.NewServer(d.handler)
	t.Cleanup(s.Close)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
	return &wire{door: d, t: t, address: s.Listener.Addr().String(), path: "/webhooks/acme/" + job.ID.String()}
}

// call is a connection on which a call was begun.
type call struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// begin sends a text on a new connection.
func (w *wire) begin(text string) *call {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // a TCP connection can
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	return &call{w.t, conn, bufio.NewReader(conn)}
}

// answer is the status of the answer, and whether the connection is closed after it.
func (c *call) answer() (status int, closed bool) {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if !res.Close {
		return res.StatusCode, false
	}
	_, err = c.in.ReadByte()
	return res.StatusCode, err == io.EOF
}

// head is the head of a signed call with further header lines.
func (w *wire) head(body string, lines ...string) string {
	return "POST " + w.path + " HTTP/1.1\r\nHost: x\r\nX-Acme-Signature: " + acmeSign("s3cret", []byte(body)) + "\r\n" +
		strings.Join(append(lines, "\r\n"), "\r\n")
}

// stall declares a byte more than it sends, and returns once all of it has arrived.
func (w *wire) stall(size int) *call {
	w.t.Helper()
	return w.begin(w.head("", fmt.Sprintf("Content-Length: %d", size)) + strings.Repeat(" ", size-1))
}

func (w *wire) deliver(size int) int {
	w.t.Helper()
	body := `{"id":"` + strings.Repeat("i", size) + `"}`
	status, _ := w.begin(w.head(body, fmt.Sprintf("Content-Length: %d", len(body))) + body).answer()
	return status
}

// Bodies that never end are older than any honest one, and give way to it one after the other.
func TestBodiesThatStallGiveWay(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"large": wireBody, "small": 60 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			first := w.stall(size)
			for range 8*wireBody/size + 1 { // more than fit
				w.stall(size)
			}
			if status, closed := first.answer(); status != 503 || !closed {
				t.Errorf("the first to stall: %d, closed: %v, want 503 and closed", status, closed)
			}
			for _, size := range []int{100, 50 << 10, 900 << 10} {
				if status := w.deliver(size); status != 200 {
					t.Errorf("a delivery of %d bytes meanwhile: %d", size, status)
				}
			}
		})
	}
}

// Large bodies that have arrived keep what they take, and small ones have a share that large ones cannot take.
func TestSmallBodiesHaveAShare(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	held := make(chan func())
	w.settler.settle = func(work *providers.Work, done func([]providers.Ending)) error {
		if len(work.Request.Body) < 1000 {
			go done(endings(work))
			return nil
		}
		go func() { held <- func() { done(endings(work)) } }()
		return nil
	}
	const size = 900 << 10
	statuses, ends := make(chan int), []func(){}
	for range 3 {
		go func() { statuses <- w.deliver(size) }()
		ends = append(ends, <-held)
	}
	if status := w.deliver(size); status != 503 {
		t.Errorf("a large one beside three that take three quarters: %d, want 503", status)
	}
	if status := w.deliver(100); status != 200 {
		t.Errorf("a small one: %d, want 200", status)
	}
	for _, end := range ends {
		end()
		if status := <-statuses; status != 200 {
			t.Errorf("one that was there: %d, want 200", status)
		}
	}
	go func() { (<-held)() }()
	if status := w.deliver(size); status != 200 {
		t.Errorf("a large one when they are gone: %d, want 200", status)
	}
}

func TestRequestSmuggling(t *testing.T) {
	t.Parallel()
	const body = `{"id":"1"}`
	const chunks = "a\r\n" + body + "\r\n0\r\n\r\n"
	for _, tt := range []struct {
		name   string
		lines  []string
		sent   string
		status int
		closed bool
		reason string
	}{
		{"a length", []string{"Content-Length: 10"}, body, 200, false, ""},
		{"chunks", []string{"Transfer-Encoding: chunked"}, chunks, 200, true, ""},
		{"both", []string{"Content-Length: 10", "Transfer-Encoding: chunked"}, chunks, 200, true, ""},
		{"both, and a request behind it", []string{"Content-Length: 4", "Transfer-Encoding: chunked"}, chunks + "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200, true, ""},
		{"broken chunks", []string{"Transfer-Encoding: chunked"}, "zz\r\n" + body, 400, true, "broken"},
		{"a chunk that is too long", []string{"Transfer-Encoding: chunked"}, "4\r\n" + body, 400, true, "broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			c := w.begin(w.head(body, tt.lines...) + tt.sent)
			if status, closed := c.answer(); status != tt.status || closed != tt.closed {
				t.Errorf("answered %d, closed: %v, want %d, %v", status, closed, tt.status, tt.closed)
			}
			for _, reason := range []string{"slow", "broken"} {
				want := 0.0
				if reason == tt.reason {
					want = 1
				}
				if n := w.metric(t, "gateway_requests_rejected_total", "acme", reason); n != want {
					t.Errorf("%v are counted as %s, want %v", n, reason, want)
				}
			}
		})
	}
}

// Who is refused before the body was read keeps the connection no longer than it takes to read the answer.
func TestARefusedBodyIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for name, head := range map[string]string{
		"unsigned":     "POST " + w.path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"unknown path": "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		if status, closed := w.begin(head).answer(); status/100 != 4 || !closed {
			t.Errorf("%s: %d, closed: %v, want a refusal and closed", name, status, closed)
		}
	}
}
