package httpdoor_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"webhook-gateway/idempotency/httpdoor"
)

func TestStatusDecidesEnding(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	calls := int32(0)
	for _, status := range []int{200, 204, 303, 400, 404, 410, 422} {
		a.answers(status)
		calls++
		a.want(request(strconv.Itoa(status)), status, calls)
		a.want(request(strconv.Itoa(status)), status, calls)
	}
	for _, status := range []int{401, 403, 408, 409, 425, 429, 503} {
		a.answers(status)
		a.want(request(strconv.Itoa(status)), status, calls+1)
		a.want(request(strconv.Itoa(status)), status, calls+2)
		calls += 2
	}
	// It is unknown whether the effect was made: it is not repeated before the lease has passed.
	for _, status := range []int{499, 500, 501, 502, 504, 507, 599} {
		a.answers(status)
		calls++
		a.want(request(strconv.Itoa(status)), status, calls)
		a.want(request(strconv.Itoa(status)), 409, calls)
	}
	// A door can know better.
	a.door.Ending = func(status int) httpdoor.Ending {
		switch status {
		case 502:
			return httpdoor.Release
		case 503:
			return httpdoor.Store
		}
		return 0
	}
	for status, again := range map[int]int32{502: 1, 503: 0} {
		a.answers(status)
		a.want(request(strconv.Itoa(status)+" decided"), status, calls+1)
		a.want(request(strconv.Itoa(status)+" decided"), status, calls+1+again)
		calls += 1 + again
	}
	a.answers(500)
	a.want(request("500 as ever"), 500, calls+1)
	a.want(request("500 as ever"), 409, calls+1)
}

func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	answer := a.operation
	hangUp := func(r *http.Request) { // in the middle of the operation
		ctx, cancel := context.WithCancel(r.Context())
		*r = *r.WithContext(ctx)
		a.operation = func(w http.ResponseWriter, r *http.Request) {
			cancel()
			answer(w, r)
		}
	}
	a.send(request("done", hangUp))
	a.want(request("done"), 201, 1)
	answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
	a.send(request("unknown", hangUp))
	a.want(request("unknown"), 409, 2)
}

func TestPanicAbandonsClaim(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.operation = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		a.send(request("k"))
	}()
	a.want(request("k"), 409, 1)
}

func TestNoStream(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.operation = func(w http.ResponseWriter, _ *http.Request) {
		_, flusher := w.(http.Flusher)
		_, hijacker := w.(http.Hijacker)
		if err := http.NewResponseController(w).Flush(); flusher || hijacker || !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("flusher %v, hijacker %v, %v", flusher, hijacker, err)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	a.want(request("k"), 503, 1)
	if n := a.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestContextEndsBeforeLease(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.operation = func(w http.ResponseWriter, r *http.Request) {
		if d, ok := r.Context().Deadline(); !ok || time.Until(d) > lease-2*time.Second {
			t.Errorf("the context ends in %s", time.Until(d))
		}
		w.WriteHeader(200)
	}
	a.want(request("k"), 200, 1)
}
