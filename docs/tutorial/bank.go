package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"webhook-gateway/idempotency"
)

const bankTimeout = 15 * time.Second

// bank is a client of the bank. The bank takes a reference with each refund, and finds refunds by it.
type bank struct{ url string }

// pay asks for a refund. Its error says what is known about the refund.
func (b bank) pay(ctx context.Context, reference string, o order) (receipt, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return receipt{}, idempotency.NoEffect(err)
	}
	r, status, err := b.ask(ctx, http.MethodPost, reference, body)
	switch {
	case err != nil:
		return receipt{}, err // unknown: the request may have reached the bank
	case status == http.StatusTooManyRequests:
		return receipt{}, idempotency.NoEffect(errors.New("the bank is busy")) // certainly not done: retry
	case status == http.StatusUnprocessableEntity:
		return receipt{}, &idempotency.Failure{Code: "declined", Message: "the bank declines it"} // an answer
	case status != http.StatusOK:
		return receipt{}, fmt.Errorf("the bank answers %d", status) // unknown
	}
	return r, nil
}

// find looks up an earlier refund.
func (b bank) find(ctx context.Context, reference string) (receipt, bool, error) {
	r, status, err := b.ask(ctx, http.MethodGet, reference, nil)
	switch {
	case err != nil:
		return receipt{}, false, err
	case status == http.StatusNotFound:
		return receipt{}, false, nil
	case status != http.StatusOK:
		return receipt{}, false, fmt.Errorf("the bank answers %d", status)
	}
	return r, true, nil
}

func (b bank) ask(ctx context.Context, method, reference string, body []byte) (r receipt, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, bankTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/refunds/"+url.PathEscape(reference), bytes.NewReader(body))
	if err != nil {
		return receipt{}, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return receipt{}, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		err = json.NewDecoder(res.Body).Decode(&r)
	}
	return r, res.StatusCode, err
}
