// Package capture knows what a captured delivery is: one folder that holds what a vendor sent, byte for
// byte, beside a description of what it needs and of what should come of it. It reads and writes such
// folders, makes requests of them, and makes them of what people have: a running gateway's requests, raw
// HTTP messages, HAR files.
//
// A folder holds delivery.yaml and at most one of body.json, body.form, body.gz and body.bin: the exact
// bytes of the request's body, after chunks were joined and before any content encoding was undone.
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
	About    string `yaml:"about,omitempty"` // for people: what is particular about it
	Provider string `yaml:"provider"`
	// Source and Job are whom it needs to be registered, by a logical name and the identities pinned.
	// A job without a source has a secret of its own.
	Source *Party `yaml:"source,omitempty"`
	Job    *Party `yaml:"job,omitempty"`
	Method string `yaml:"method"`
	// Target is path and query. SourceMark and JobMark in it stand for the path of the source or job.
	Target  string   `yaml:"target"`
	Headers []Header `yaml:"headers"`
	// HeadersExact tells that the order and the letter case of the headers are the vendor's.
	HeadersExact bool      `yaml:"headers_exact,omitempty"`
	ReceivedAt   time.Time `yaml:"received_at"`
	Body         *Body     `yaml:"body,omitempty"` // nil: the request had none
	Sign         Sign      `yaml:"sign"`
	// Scrubbed names what was taken out or replaced.
	Scrubbed []string `yaml:"scrubbed,omitempty,flow"`
	Expect   Expect   `yaml:"expect"`

	// Name is the folder, from where the captures were loaded; Dir is where it lies.
	Name string `yaml:"-"`
	Dir  string `yaml:"-"`
	// Content is the body's bytes.
	Content []byte `yaml:"-"`
}

// The marks in a target. The whole path of the party takes the place of /webhooks/{provider}/ and the mark.
const (
	SourceMark = "{source}"
	JobMark    = "{job}"
)

// Party is a source or a job by the name that it has among captures.
type Party struct {
	Name     string            `yaml:"name"`
	Pins     map[string]string `yaml:"pins,omitempty,flow"`
	Fallback bool              `yaml:"fallback,omitempty"` // of a job: it takes what names no tenant
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

// Body says which bytes the body is.
type Body struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
	Bytes  int    `yaml:"bytes"`
}

// Mode says how a request of the capture comes by its signature.
type Mode string

// The modes.
const (
	// Resign signs with the secret of whom it needs, and now. It is the mode where none is given:
	// nothing secret and nothing stale lies in the folder.
	Resign Mode = "resign"
	// Recorded carries the real signature, with the secret that it was made with beside it. For what is
	// public anyway. It is good at the time it was received, so it is only replayed in process.
	Recorded Mode = "recorded"
	// Unsigned is for what a vendor does not sign.
	Unsigned Mode = "none"
	// Kept carries the signature that came, for a diagnosis. It is never replayed and never committed.
	Kept Mode = "kept"
)

// Sign says how a request of the capture is signed.
type Sign struct {
	Mode   Mode   `yaml:"mode"`
	Secret string `yaml:"secret,omitempty"` // of Recorded alone
	Alter  *Alter `yaml:"alter,omitempty"`
}

// Alter makes another request of a good one. Replace and SetHeader change what is signed; the others
// spoil what was signed.
type Alter struct {
	Replace    []string      `yaml:"replace,omitempty,flow"`   // a text of the body, and what takes its first place
	SetHeader  *Header       `yaml:"set_header,omitempty"`     // added, or put in the place of one
	Age        time.Duration `yaml:"age,omitempty"`            // signed so long ago
	FlipByte   *int          `yaml:"flip_byte,omitempty"`      // of the body, counted from 0, from its end if negative
	DropHeader string        `yaml:"drop_header,omitempty"`    // the header of that name is left out
	Foreign    bool          `yaml:"foreign_secret,omitempty"` // signed with a secret that nobody registered
}

// Expect is what should come of it.
type Expect struct {
	Once   Result  `yaml:"once"`             // of the first time
	Again  *Result `yaml:"again,omitempty"`  // of any later time
	Twenty *Result `yaml:"twenty,omitempty"` // of twenty at once, all together; Status is that of each
	// Stored are the rows of the inbox that Once makes, in their order.
	Stored []Row `yaml:"stored,omitempty"`
}

// Result is what comes of sending a capture.
type Result struct {
	Status   int      `yaml:"status"`
	Answer   string   `yaml:"answer,omitempty"` // the body of the answer
	Outcomes Outcomes `yaml:"outcomes,flow"`
	Rows     int      `yaml:"rows"`            // rows added to the inbox
	Drops    int      `yaml:"drops,omitempty"` // rows added to the drops
}

// Row is what is golden of a row of the inbox.
type Row struct {
	Type  string `yaml:"type"`
	ID    string `yaml:"id,omitempty"`    // the vendor's id in its key; empty: minted
	Order string `yaml:"order,omitempty"` // its ordering key
	Hash  string `yaml:"hash"`            // its fingerprint
}
