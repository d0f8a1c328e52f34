package replay

import "webhook-gateway/internal/capture"

// Capture is one captured delivery. Its fields are:
//
//	Name         string     its folder, from where the captures were loaded
//	Dir          string     where the folder lies
//	Content      []byte     the body, byte for byte
//	Format       string     the version of the format
//	About        string     for people: what is special about it
//	Provider     string     the vendor: slack, nylas
//	Source, Job  *Party     the source and job that it needs; nil: none
//	Method       string     POST, or GET for a challenge
//	Target       string     path and query; {source} and {job} in it stand for a real path
//	Headers      []Header   in their order, without those of the signature
//	HeadersExact bool       order and letter case of the headers are the vendor's
//	ReceivedAt   time.Time
//	Body         *struct    File, SHA256 and Bytes of the body; nil: it has no body
//	Sign         struct     Mode (resign, recorded, none, kept), Secret and Alter (*Alter)
//	Scrubbed     []string   what was removed or replaced
//	Expect       Expect     the expected results
//
// Its method Value(name) returns a header's value.
type Capture = capture.Capture

// Party is a source or a job by its name among captures. Its fields are:
//
//	Name     string
//	Pins     map[string]string   the identities that it pins, by their names
//	Fallback bool                of a job: it takes what names no tenant
type Party = capture.Party

// Header is a header's name and value: a [2]string.
type Header = capture.Header

// Alter turns a good request into another. Its fields are:
//
//	Replace    []string        a text of the body, and what replaces its first occurrence
//	SetHeader  *Header         added, or replaces one
//	Age        time.Duration   signed so long ago
//	FlipByte   *int            a byte of the body, counted from 0, from its end if negative
//	DropHeader string          the name of a header that is left out
//	Foreign    bool            signed with a secret that is not registered
//
// Replace and SetHeader change what is signed; the others spoil what was signed.
type Alter = capture.Alter

// Expect holds the expected results of a capture. Its fields are:
//
//	Once   Result    of the first time
//	Again  *Result   of any later time; nil: the same as Once
//	Twenty *Result   of twenty at once, in total; nil: Once, and nineteen times Again
//	Stored []Row     the rows of the inbox that Once makes, in their order; nil: not described
//
// Its method After(n) returns the Result of sending it n times.
type Expect = capture.Expect

// Result is the result of sending a capture. Its fields are:
//
//	Status   int        of the answer
//	Answer   string     the body of the answer
//	Outcomes Outcomes
//	Rows     int        rows added to the inbox
//	Drops    int        rows added to the drops
type Result = capture.Result

// Row holds the expected columns of a row of the inbox. Its fields are:
//
//	Type  string
//	ID    string   the vendor's id in its key; empty: minted
//	Order string   its ordering key
//	Hash  string   its fingerprint
type Row = capture.Row

// Outcomes counts deliveries by outcome, a map[string]int: "accepted", "handshake", and the reasons of drops and
// rejections, as in the metrics. Its methods are Plus(other, n), Total() and String().
type Outcomes = capture.Outcomes

// Scenario is a sequence of captures: see LoadScenarios and Play. Its fields are:
//
//	Name   string   the file's name without its ending
//	Format string   the version of the format
//	About  string
//	Steps  []Step   Delivery, Offset, Times, Sender, Alter (*Alter), Expect (Result) and Capture (*Capture)
//
// Its method Captures() returns the captures, for NewMemory.
type Scenario = capture.Scenario

// Place is where a source or a job is reached. Its fields are:
//
//	Path   string   /webhooks/slack/sources/main
//	Secret string   what its requests are signed with
type Place = capture.Place

// Places holds the places of the sources and jobs that captures need, a map[string]Place by PlaceKey. Its method
// Of(capture) returns the place that signs a capture.
type Places = capture.Places

// PlaceKey returns the key of a place: of a provider's "source" or "job", by its name among captures.
func PlaceKey(provider, kind, name string) string { return capture.PlaceKey(provider, kind, name) }

// Signer returns the headers with which a vendor signs a body at a time:
//
//	func(secret string, body []byte, at time.Time) http.Header
type Signer = capture.Signer
