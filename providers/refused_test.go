package providers_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/jobs"
)

func TestRefusalLogRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		for range 3 {
			for range 5 {
				d.do(httptest.NewRequest(http.MethodGet, "/nothing", nil))
			}
			time.Sleep(time.Second)
		}
		var unlogged []string
		for _, match := range regexp.MustCompile(`"msg":"request refused".*?"unlogged":(\d+)`).FindAllStringSubmatch(d.logged.String(), -1) {
			unlogged = append(unlogged, match[1])
		}
		if diff := cmp.Diff([]string{"0", "4", "4"}, unlogged); diff != "" {
			t.Errorf("lines and the refusals before them (-want +got):\n%s", diff)
		}
		if n := d.metric(t, "gateway_requests_refused_total", "path"); n != 15 {
			t.Errorf("%v counted, want 15", n)
		}
	})
}

// The server half-closes a connection after a refusal, so that the client can read the answer.
func TestHalfClosedConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := newDoor(t).watch(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	half, ok := server.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		t.Fatal("it cannot be half-closed")
	}
	_ = client.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client reads %v, want the end", err)
	}
}

func TestOneSlashAtTheEndIsForgiven(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
	for path, status := range map[string]int{
		"/webhooks/acme/" + job.ID.String() + "/": 200, "/webhooks/acme/" + job.ID.String() + "//": 404, "/webhooks/acme/" + job.ID.String() + "/x/": 404,
		"/webhooks/acme//": 404, "/webhooks/acme/sources//": 404, "/webhooks/acme/": 404,
	} {
		if got := d.send(path, "s3cret", `{"id":"1"}`); got.Code != status {
			t.Errorf("%s: %d, want %d", path, got.Code, status)
		}
	}
	for _, path := range []string{"/webhooks/acme/" + uuid.NewString() + "/", "/webhooks/acme/sources/main/"} {
		if got := d.do(httptest.NewRequest(http.MethodGet, path+"?challenge=x", nil)); got.Code != 200 || got.Body.String() != "x" {
			t.Errorf("%s: %d %q, want the challenge", path, got.Code, got.Body)
		}
	}
}
