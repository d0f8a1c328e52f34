package doctor

// Code names a cause. The set is closed.
type Code string

// The causes.
const (
	// Of the headers.
	SignatureMissing Code = "signature_missing"
	SignatureTwice   Code = "signature_twice"
	TimeMissing      Code = "timestamp_missing"
	Stale            Code = "timestamp_out_of_time"
	TimeMillis       Code = "timestamp_in_milliseconds"
	TimeChanged      Code = "timestamp_changed"
	TimeMalformed    Code = "timestamp_malformed"
	PrefixMissing    Code = "prefix_missing"
	PrefixOther      Code = "prefix_unexpected"
	UpperCase        Code = "hex_in_upper_case"
	Base64           Code = "base64_for_hex"
	Quoted           Code = "signature_quoted"
	Truncated        Code = "signature_truncated"
	OtherAlgorithm   Code = "other_algorithm"
	NotASignature    Code = "not_a_signature"

	// Of the body.
	Reencoded      Code = "body_reencoded"
	NewlineAdded   Code = "newline_added"
	NewlineRemoved Code = "newline_removed"
	LineEnds       Code = "line_ends_changed"
	ByteOrderMark  Code = "byte_order_mark"
	Blanks         Code = "blanks_around_body"
	Inflated       Code = "inflated_before_verification"
	Compressed     Code = "compressed_after_signing"
	BodyBase64     Code = "body_in_base64"
	Chunked        Code = "chunks_not_joined"
	Charset        Code = "character_set_changed"
	LostBytes      Code = "bytes_lost"
	PayloadAlone   Code = "payload_without_its_form"
	QuotedBody     Code = "body_is_a_string_of_the_body"
	OtherBody      Code = "signed_for_another_body"

	// Of the secret.
	NoSecret       Code = "no_secret"
	SecretBlanks   Code = "secret_with_blanks"
	SecretQuoted   Code = "secret_quoted"
	SecretEncoded  Code = "secret_encoded"
	TestSecret     Code = "vendor_test_secret"
	OtherSecret    Code = "secret_of_another"
	PlainSignature Code = "signed_without_time"

	// Unknown: no change that was tried makes the signature fit.
	Unknown Code = "unknown"
)
