package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"webhook-gateway/jobs"
)

// vendorSamples is what gateway dev registers for a vendor, and what gateway send can send in its name.
type vendorSamples struct {
	provider    string
	application jobs.Identity   // what the sample source pins
	tenants     []jobs.Identity // each is pinned by a sample job of its own
	types       []sampleType    // the first is sent unless another is named
}

// sampleType is one kind of request that a vendor makes.
type sampleType struct {
	name  string
	about string
	make  func(named) sample
}

// named are the identities that a sample names, by the vendor's names for them.
type named map[string]string

// or returns the identity of that name, or what stands in for it: a vendor's body always names some.
func (r named) or(name, otherwise string) string {
	if v := r[name]; v != "" {
		return v
	}
	return otherwise
}

// sample is one delivery, to be sent once or several times.
type sample struct {
	query       url.Values // of a GET; nil: it is a POST
	contentType string
	unsigned    bool
	// handshake tells that it is answered, with this text, and nothing of it is kept.
	handshake bool
	answer    string
	// attempt returns what the vendor sends the n-th time, counted from 1.
	attempt func(n int) (body []byte, headers http.Header)
}

// samples lists the vendors that can be imitated.
func samples() []vendorSamples { return []vendorSamples{slackSamples(), nylasSamples()} }

func samplesOf(provider string) (vendorSamples, error) {
	var names []string
	for _, v := range samples() {
		if v.provider == provider {
			return v, nil
		}
		names = append(names, v.provider)
	}
	return vendorSamples{}, usagef("unknown provider %q (known: %s)", provider, strings.Join(names, " and "))
}

func (v vendorSamples) find(name string) (sampleType, error) {
	if name == "" {
		return v.types[0], nil
	}
	var names []string
	for _, t := range v.types {
		if t.name == name {
			return t, nil
		}
		names = append(names, t.name)
	}
	return sampleType{}, usagef("unknown %s sample %q (known: %s)", v.provider, name, strings.Join(names, ", "))
}

// same is a body that every attempt sends alike.
func same(body []byte) func(int) ([]byte, http.Header) {
	return func(int) ([]byte, http.Header) { return body, nil }
}

// object is a JSON object.
type object map[string]any

func (o object) bytes() []byte {
	b, _ := json.Marshal(o) // of maps, lists, texts and numbers: it cannot fail
	return b
}

// randomText returns n random lower-case hexadecimal digits.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never returns an error: it ends the process instead
	return hex.EncodeToString(b)[:n]
}
