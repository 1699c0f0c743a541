package store

import (
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Opening is what is known of an exchange before the provider is called.
// [Store.Begin] keeps no reference to any of its slices or strings.
type Opening struct {
	Account string // must exist
	KeyID   string // the service key that was presented

	Surface    codec.Format // what the client speaks
	Format     codec.Format // what the provider is spoken to in; [codec.FormatUnknown] when the request is refused
	Provider   string
	ModelAsked string
	ModelSent  string // differs from ModelAsked when an alias applied
	Stream     bool
	Simulated  bool // the built-in simulated provider answers

	ChatKey         string // service chat key as the client sent it, header before body
	ExternalSession string // service external session id, likewise

	// What the client's own fields and the history say about the session; all optional. See session.go for how they
	// are weighed.
	NativeSession    string // the client's own conversation id
	NativeAgent      string // the subagent inside NativeSession that speaks; "" for the main one
	NativeParent     string // the agent that NativeAgent works for; "" for the main one
	PreviousResponse string // id of the response that the request continues
	Follows          string // session of that response, where another node of a cluster has answered it; "": see PreviousResponse
	Conversation     string // id of the conversation object that the request names
	DerivedOpening   string // key of the normalised opening messages; like DerivedReply, of Body as it is stored
	DerivedReply     string // key of the opening messages and the first answer; "" while the history holds no answer
	Auxiliary        string // why the request is no turn, such as [AuxiliaryTokens]; "" for a turn
	Project          string // the directory that the client works in, or what it says its project is; "": not known

	Header      []HeaderField // the fields that identify the client, chosen by the server; never a credential
	ContentType string
	Body        []byte              // the request as the client sent it, decompressed; masked by Redactor
	Spans       []codec.Span        // where Body may be cut, as [codec.Envelope.Blocks] gives them; nil: nowhere
	Items       []codec.Span        // those of Spans that are its messages or input items; nil: not known
	Prints      []codec.Fingerprint // of Spans in Body; nil: not known

	Redactor *redact.Redactor // of [Credentials.Redactor], which masked Body, and masks all else; nil: the account's
	Redacted redact.Tally     // what was masked in Body

	Started time.Time // zero: now
}

// Why a request is no turn of its conversation.
const (
	AuxiliaryTokens  = "count_tokens"
	AuxiliaryTitle   = "title"
	AuxiliarySummary = "summary"
	AuxiliaryPrewarm = "prewarm"
	AuxiliaryReplay  = "replay" // a recorded request was sent again
)

// HeaderField is one header line.
type HeaderField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Closing is how an exchange ended.
type Closing struct {
	Outcome       Outcome
	Status        int       // HTTP status that the client was given
	FirstByte     time.Time // first byte of the answer; zero: none came
	LastByte      time.Time
	ModelServed   string // as the provider names it
	Usage         codec.Usage
	Cost          *Cost // nil: not known
	FinishReason  string
	ResponseID    string       // id of the answer in the client's format
	Error         *codec.Error // what the client was told, when Outcome is not complete; Cause is not kept
	Translation   []string     // what the crossing dropped or emulated
	ContentType   string       // of the answer
	ProviderReqID string       // the provider's own request id
	Attempts      []Attempt    // at providers; none when there was one, which gave the answer
	Recall        *RecallInfo  // what was recalled for the request; nil: nothing was to be
	StandIn       *StandIn     // who was asked last, when that is not who the opening names
}

// Attempt is one try to get an answer from a provider.
type Attempt struct {
	Provider string `json:"provider"`
	Endpoint string `json:"endpoint"`      // host:port
	Key      int    `json:"key,omitempty"` // number of the server's credential in the configuration, from 1; absent: the account's or the caller's own
	Model    string `json:"model"`
	Status   int    `json:"status,omitempty"`  // HTTP status; absent: no answer
	Failure  string `json:"failure,omitempty"` // why another attempt was made, or could have been; absent: none
	Took     int64  `json:"ms"`                // until the header of the answer
}

// StandIn is the model that was asked in place of another, and how.
type StandIn struct {
	Provider  string
	Format    codec.Format
	ModelSent string
	Simulated bool
}

// Outcome says how an exchange ended.
type Outcome uint8

const (
	OutcomeOpen          Outcome = iota // still running
	OutcomeComplete                     // the whole answer was there
	OutcomeClientClosed                 // the client left before the end; the answer is what had arrived
	OutcomeUpstreamError                // the provider failed, before or inside the answer
	OutcomeInterrupted                  // the process ended before the exchange did
	OutcomeRefused                      // an authenticated caller's request was turned down; no provider was called
	OutcomeDamaged                      // in lists: the record cannot be read, Error says so; no record has this outcome
)

var outcomeNames = [...]string{"open", "complete", "client_closed", "upstream_error", "interrupted", "refused", "damaged"}

// String is the name used in records, logs and metrics.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// ParseOutcome reads a name as [Outcome.String] writes it.
func ParseOutcome(name string) (Outcome, error) {
	for i, known := range outcomeNames {
		if name == known {
			return Outcome(i), nil
		}
	}
	return OutcomeOpen, fmt.Errorf("unknown outcome %q", name)
}

// MarshalText writes the name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a name.
func (o *Outcome) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOutcome(string(text))
	return err
}

// ExchangeInfo is what lists show of an exchange, and what its record holds as JSON.
type ExchangeInfo struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	Session   string    `json:"session,omitempty"` // not in the record: sessions can be merged and split
	KeyID     string    `json:"key_id,omitempty"`
	Outcome   Outcome   `json:"outcome"`
	Started   time.Time `json:"started"`
	Imported  time.Time `json:"imported,omitzero"` // into this store; zero: it passed here
	FirstByte time.Time `json:"first_byte,omitzero"`
	LastByte  time.Time `json:"last_byte,omitzero"`
	Status    int       `json:"status,omitempty"`

	Surface     string `json:"surface"`
	Format      string `json:"format,omitempty"`
	Provider    string `json:"provider,omitempty"`
	Stream      bool   `json:"stream,omitempty"`
	Simulated   bool   `json:"simulated,omitempty"`
	ModelAsked  string `json:"model_asked,omitempty"`
	ModelSent   string `json:"model_sent,omitempty"`
	ModelServed string `json:"model_served,omitempty"`

	ChatKey         string `json:"chat_key,omitempty"`
	ExternalSession string `json:"external_session,omitempty"`
	NativeSession   string `json:"native_session,omitempty"`
	NativeAgent     string `json:"native_agent,omitempty"`
	Auxiliary       string `json:"auxiliary,omitempty"`
	Project         string `json:"project,omitempty"`

	Usage         UsageInfo  `json:"usage,omitzero"`
	Cost          *Cost      `json:"cost,omitempty"` // nil: not known, such as of a model without a price
	FinishReason  string     `json:"finish_reason,omitempty"`
	ResponseID    string     `json:"response_id,omitempty"`
	ProviderReqID string     `json:"provider_request_id,omitempty"`
	Error         *ErrorInfo `json:"error,omitempty"`
	Translation   []string   `json:"translation,omitempty"`
	Attempts      []Attempt  `json:"attempts,omitempty"`

	PreviousResponse string `json:"previous_response,omitempty"` // id of the response that the request goes on from

	Recall *RecallInfo `json:"recall,omitempty"`

	Header       []HeaderField `json:"header,omitempty"`
	RequestType  string        `json:"request_content_type,omitempty"`
	ResponseType string        `json:"response_content_type,omitempty"`
	RequestSize  int64         `json:"request_bytes"`
	ResponseSize int64         `json:"response_bytes"` // that are recorded

	// ResponseUnrecorded is how many more bytes of the answer passed than are recorded, see [Options.AnswerBytes].
	ResponseUnrecorded int64 `json:"response_bytes_unrecorded,omitempty"`

	Redactions []Redaction `json:"redactions,omitempty"` // by name

	Tags []string `json:"tags,omitempty"` // that people gave it
	Note string   `json:"note,omitempty"`

	Committed string `json:"committed,omitempty"` // [CommittedLocal]: it was to be with the brokers of the cluster before it ended, and was not
}

// CommittedLocal is of an exchange that was on record at its edge alone when it ended.
const CommittedLocal = "local"

// KeptSince is when the store got the exchange. Its age counts from then.
func (x *ExchangeInfo) KeptSince() time.Time {
	if x.Imported.IsZero() {
		return x.Started
	}
	return x.Imported
}

// UsageInfo is [codec.Usage] as records hold it.
type UsageInfo struct {
	InputUncached int64      `json:"input_uncached,omitempty"`
	CacheRead     int64      `json:"cache_read,omitempty"`
	CacheWrite    int64      `json:"cache_write,omitempty"`
	CacheLong     int64      `json:"cache_write_long,omitempty"` // the part of CacheWrite that is kept longer, and costs more
	Output        int64      `json:"output,omitempty"`
	Reasoning     int64      `json:"reasoning,omitempty"`
	Tier          codec.Tier `json:"tier,omitempty"`      // of service; not in a session
	Estimated     bool       `json:"estimated,omitempty"` // the provider did not say; in a session: of one of its exchanges or more
}

// ErrorInfo is the part of a [codec.Error] that clients were told.
type ErrorInfo struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Param   string `json:"param,omitempty"`
}

// Exchange is one exchange with its bytes.
type Exchange struct {
	ExchangeInfo
	RawRequest  []byte `json:"-"` // as the client sent it, but for redactions
	RawResponse []byte `json:"-"` // as the client was sent it, or the part of it that had arrived; but for redactions

	// Items is only there while a large exchange is digested right behind its answer. It says whether RawRequest is all of
	// the request.
	Items *RequestItems `json:"-"`

	// Derived are the keys of the request from when it came in, and was well-formed; none where it did not need any. nil:
	// nobody knows.
	Derived *chatkey.Keys `json:"-"`

	// Reader has read RawResponse already, from its front to the last whole event; nil if nobody has.
	Reader StreamReader `json:"-"`

	// Stored is the first part of RawResponse as it is kept before it is compressed, where an exchange is digested whose events are
	// taken apart there; nil: the part itself.
	Stored []byte `json:"-"`
}
