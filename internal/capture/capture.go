// Package capture defines captured deliveries: a folder with what a vendor sent, byte for byte, a description of what
// it needs, and the expected result. It reads and writes such folders, turns them into requests, and makes them from
// a running gateway's requests, raw HTTP messages and HAR files.
//
// A folder contains delivery.yaml and at most one of body.json, body.form, body.gz and body.bin: the exact bytes of
// the request's body, after chunks were joined and before any content encoding was undone.
package capture

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// Format is the version of the format that this package reads and writes.
const Format = "gateway.capture/v1"

// File is the name of the description inside a capture's folder.
const File = "delivery.yaml"

// Capture is one captured delivery.
type Capture struct {
	Format   string `yaml:"format"`
	About    string `yaml:"about,omitempty"` // for people: what is special about it
	Provider string `yaml:"provider"`
	// Source and Job are what the capture needs to be registered, with a logical name and the pinned identities. A
	// job without a source has its own secret.
	Source *Party `yaml:"source,omitempty"`
	Job    *Party `yaml:"job,omitempty"`
	Method string `yaml:"method"`
	// Target is path and query. SourceMark and JobMark in it stand for the path of the source or job.
	Target  string   `yaml:"target"`
	Headers []Header `yaml:"headers"`
	// HeadersExact says that the order and the letter case of the headers are the vendor's.
	HeadersExact bool      `yaml:"headers_exact,omitempty"`
	ReceivedAt   time.Time `yaml:"received_at"`
	Body         *Body     `yaml:"body,omitempty"` // nil: the request had none
	Sign         Sign      `yaml:"sign"`
	// Scrubbed names what was removed or replaced.
	Scrubbed []string `yaml:"scrubbed,omitempty,flow"`
	Expect   Expect   `yaml:"expect"`

	// Name is the folder's path below the place from which the captures were loaded; Dir is the folder.
	Name string `yaml:"-"`
	Dir  string `yaml:"-"`
	// Content is the body's bytes.
	Content []byte `yaml:"-"`
}

// The marks in a target. The party's whole path replaces /webhooks/{provider}/ and the mark.
const (
	SourceMark = "{source}"
	JobMark    = "{job}"
)

// Party is a source or a job by its name among captures.
type Party struct {
	Name     string            `yaml:"name"`
	Pins     map[string]string `yaml:"pins,omitempty,flow"`
	Fallback bool              `yaml:"fallback,omitempty"` // of a job: it receives what names no tenant
}

// Header is a header's name and value.
type Header [2]string

// MarshalYAML writes the pair on one line.
func (h Header) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, text := range h {
		var scalar yaml.Node
		scalar.SetString(text)
		node.Content = append(node.Content, &scalar)
	}
	return node, nil
}

// Body describes the body's file.
type Body struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
	Bytes  int    `yaml:"bytes"`
}

// Mode says how a request of the capture gets its signature.
type Mode string

// The modes.
const (
	// Resign signs now, with the secret of the source or job. It is the default: the folder then contains nothing
	// secret and nothing that expires.
	Resign Mode = "resign"
	// Recorded carries the real signature together with its secret, for requests that are public anyway. The
	// signature is valid at the time of receipt, so it is only replayed in process.
	Recorded Mode = "recorded"
	// Unsigned is for requests that a vendor does not sign.
	Unsigned Mode = "none"
	// Kept carries the received signature, for a diagnosis. It is never replayed and never committed.
	Kept Mode = "kept"
)

// Sign says how a request of the capture is signed.
type Sign struct {
	Mode   Mode   `yaml:"mode"`
	Secret string `yaml:"secret,omitempty"` // only for Recorded
	Alter  *Alter `yaml:"alter,omitempty"`
}

// Alter turns a good request into another. Replace and SetHeader change what is signed; the others break what was
// signed.
type Alter struct {
	Replace    []string      `yaml:"replace,omitempty,flow"`   // a text of the body, and what replaces its first occurrence
	SetHeader  *Header       `yaml:"set_header,omitempty"`     // added, or replaces one
	Age        time.Duration `yaml:"age,omitempty"`            // signed so long ago
	FlipByte   *int          `yaml:"flip_byte,omitempty"`      // of the body, counted from 0, or from the end if negative
	DropHeader string        `yaml:"drop_header,omitempty"`    // the name of a header that is left out
	Foreign    bool          `yaml:"foreign_secret,omitempty"` // signed with a secret that is not registered
}

// Expect holds the expected results.
type Expect struct {
	Once   Result  `yaml:"once"`             // of the first time
	Again  *Result `yaml:"again,omitempty"`  // of any later time
	Twenty *Result `yaml:"twenty,omitempty"` // of twenty at once, in total; Status is that of each
	// Stored holds the rows of the inbox that Once makes, in their order.
	Stored []Row `yaml:"stored,omitempty"`
}

// Result is the result of sending a capture.
type Result struct {
	Status   int      `yaml:"status"`
	Answer   string   `yaml:"answer,omitempty"` // the body of the answer
	Outcomes Outcomes `yaml:"outcomes,flow"`
	Rows     int      `yaml:"rows"`            // rows added to the inbox
	Drops    int      `yaml:"drops,omitempty"` // rows added to the drops
}

// Row holds the expected columns of a row of the inbox.
type Row struct {
	Type  string `yaml:"type"`
	ID    string `yaml:"id,omitempty"`    // the vendor's id in its key; empty: minted
	Order string `yaml:"order,omitempty"` // its ordering key
	Hash  string `yaml:"hash"`            // its fingerprint
}
