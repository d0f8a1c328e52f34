// Package samples holds the parts from which vendors build samples: requests that look like theirs, for people who
// try a gateway.
package samples

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"webhook-gateway/jobs"
)

// The content types of samples.
const (
	JSON = "application/json"
	Form = "application/x-www-form-urlencoded"
)

// Set holds the samples of a vendor, and what is registered to receive them.
type Set struct {
	Application jobs.Identity   // the sample source pins it
	Tenants     []jobs.Identity // each is pinned by a sample job
	Kinds       []Kind          // the first is sent if none is named
}

// Kind is one kind of request that a vendor makes.
type Kind struct {
	Name  string
	About string
	Make  func(Names) Sample
}

// Find returns the kind of that name, or the first if the name is empty. The error lists the known names.
func (s Set) Find(name string) (Kind, error) {
	var names []string
	for _, k := range s.Kinds {
		if k.Name == name || name == "" {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("sample %q (known: %s)", name, strings.Join(names, ", "))
}

// Names holds the identities that a sample names, by the vendor's names for them.
type Names map[string]string

// Or returns the identity of that name, or a substitute: a vendor's body always names one.
func (n Names) Or(name, substitute string) string {
	if v := n[name]; v != "" {
		return v
	}
	return substitute
}

// Sample is one delivery, to be sent once or several times.
type Sample struct {
	Query       url.Values // of a GET; nil: it is a POST
	ContentType string
	Unsigned    bool
	// Handshake says that the gateway answers with the text Answer and stores nothing.
	Handshake bool
	Answer    string
	// Attempt returns what the vendor sends the n-th time, counted from 1.
	Attempt func(n int) (body []byte, headers http.Header)
}

// Same returns an Attempt that sends the body unchanged every time.
func Same(body []byte) func(int) ([]byte, http.Header) {
	return func(int) ([]byte, http.Header) { return body, nil }
}

// Object is a JSON object of maps, lists, texts and numbers.
type Object map[string]any

// Bytes returns the object's JSON.
func (o Object) Bytes() []byte {
	b, _ := json.Marshal(o) // it cannot fail for such values
	return b
}

// Random returns n random lower-case hexadecimal digits.
func Random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never returns an error: it ends the process instead
	return hex.EncodeToString(b)[:n]
}
