// Package send sends a sample to a gateway, as a vendor would, and finds what the gateway stored of it.
package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
	"webhook-gateway/feed"
	"webhook-gateway/internal/samples"
	"webhook-gateway/providers"
)

// ErrNoAnswer says that no gateway answers at the URL.
var ErrNoAnswer = errors.New("no gateway answers")

// Request is a sample, and where to send it.
type Request struct {
	samples.Sample
	Vendor providers.Provider
	URL    string // of the source or job
	Secret string // signs the sample there
}

// Method is the method of the request.
func (r Request) Method() string {
	if r.Query != nil {
		return http.MethodGet
	}
	return http.MethodPost
}

// Answer is the gateway's answer to one request.
type Answer struct {
	Status int
	Body   string
	Took   time.Duration
}

// Result holds the gateway's answers, and what it stored.
type Result struct {
	Answers []Answer
	Stored  []feed.Delivery // without their bodies
	Dropped []drops.Kept

	began  time.Time
	bodies [][]byte
}

// Send sends a sample the given number of times, one after the other. The error is ErrNoAnswer when no gateway
// answers.
func Send(ctx context.Context, r Request, times int) (Result, error) {
	result := Result{began: time.Now()}
	for n := range times {
		body, headers := r.Attempt(n + 1)
		result.bodies = append(result.bodies, body)
		req, err := http.NewRequestWithContext(ctx, r.Method(), r.URL, bytes.NewReader(body))
		if err != nil {
			return result, fmt.Errorf("make the request: %w", err)
		}
		maps.Copy(req.Header, headers)
		if r.ContentType != "" {
			req.Header.Set("Content-Type", r.ContentType)
		}
		req.Header.Set("User-Agent", "gateway-send")
		if s, ok := r.Vendor.(providers.Signer); ok && !r.Unsigned {
			maps.Copy(req.Header, s.Sign(r.Secret, body, time.Now()))
		}
		answer, err := post(req)
		if err != nil {
			return result, err
		}
		result.Answers = append(result.Answers, answer)
	}
	return result, nil
}

// post sends a request as a vendor does: without a proxy, without following redirects, and with a timeout.
func post(req *http.Request) (Answer, error) {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Timeout:       15 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("%w at %s (is gateway dev or gateway serve running?): %w", ErrNoAnswer, req.URL.Host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{resp.StatusCode, string(body), time.Since(began)}, nil
}

// Look adds to the result what the gateway's database holds of the sent bodies. Each sample is unique, so its body
// identifies its rows.
func (result *Result) Look(ctx context.Context, pool *pgxpool.Pool, r Request) error {
	if r.Handshake {
		return nil
	}
	var parts [][]byte
	for _, body := range result.bodies {
		parts = append(parts, partsOf(r.Vendor, r.ContentType, body)...)
	}
	since := result.began.Add(-time.Minute) // the gateway's clock may differ
	for row, err := range feed.NewReader(pool).All(ctx, feed.Filter{Provider: r.Vendor.Name(), Bodies: parts, ReceivedFrom: since}) {
		if err != nil {
			return err
		}
		result.Stored = append(result.Stored, row)
	}
	var err error
	result.Dropped, err = drops.NewStore(pool).FindBodies(ctx, feed.FirstID(since), r.Vendor.Name(), result.bodies)
	return err
}

// partsOf returns what the inbox stores of a body: the body itself, or its deliveries one by one.
func partsOf(v providers.Provider, contentType string, body []byte) [][]byte {
	deliveries, err := v.Parse(contentType, body)
	if err != nil {
		return [][]byte{body}
	}
	var list [][]byte
	for _, d := range deliveries {
		if d.Body == nil {
			d.Body = body
		}
		list = append(list, d.Body)
	}
	return list
}

// Check returns an error unless the gateway answered and stored the sample as it should.
func (result *Result) Check(r Request) error {
	for _, a := range result.Answers {
		if a.Status != http.StatusOK {
			return fmt.Errorf("the gateway answers %d: %s", a.Status, meaning(a.Status))
		}
		if a.Body != r.Answer {
			return fmt.Errorf("the gateway answers 200 with %q, but the vendor expects %q", a.Body, r.Answer)
		}
	}
	if !r.Handshake && len(result.Stored) == 0 && len(result.Dropped) == 0 {
		return errors.New("acknowledged, but this database has neither a row nor a drop of it: does the gateway use this database?")
	}
	return nil
}

// meaning explains a status, and says where to look.
func meaning(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the signature does not fit this source or job: does the gateway use this database?"
	case http.StatusRequestEntityTooLarge:
		return "the body is over GATEWAY_MAX_BODY_BYTES"
	case http.StatusServiceUnavailable:
		return "try again: no secret is set, a rotation is declared open, or PostgreSQL does not keep up; the gateway's log says which"
	case http.StatusNotFound:
		return "unknown URL: is the --target a gateway?"
	default:
		return "a gateway does not answer so: is the --target one?"
	}
}
