package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Opening is what is known of an exchange before the provider is called.
// [store.Store.Begin] keeps no reference to any of its slices or strings.
type Opening struct {
	Account string // must exist
	KeyID   string // the caller's service key

	Surface    codec.Format // the client's format
	Format     codec.Format // the provider's format; [codec.FormatUnknown] if the request is refused
	Provider   string
	ModelAsked string
	ModelSent  string // differs from ModelAsked if an alias applied
	Stream     bool
	Simulated  bool // the built-in simulated provider answers

	ChatKey         string // service chat key from the client; the header overrides the body
	ExternalSession string // service external session id, as above

	// What the client's own fields and the history say about the session; all optional. session.go describes how they
	// are weighed.
	NativeSession    string // the client's own conversation id
	NativeAgent      string // the subagent inside NativeSession; "" for the main one
	NativeParent     string // the agent that NativeAgent works for; "" for the main one
	PreviousResponse string // id of the response that the request continues
	Follows          string // session of that response, if another node of the cluster answered it; "": see PreviousResponse
	Conversation     string // id of the conversation object in the request
	DerivedOpening   string // key of the normalized opening messages; like DerivedReply, of Body as it is stored
	DerivedReply     string // key of the opening messages and the first answer; "" while the history holds no answer
	Auxiliary        string // why the request is not a turn, such as [AuxiliaryTokens]; "" for a turn
	Project          string // the client's working directory or stated project; "": unknown

	Header      []HeaderField // fields that identify the client, chosen by the server; never a credential
	Target      string        // method and path of a request of the surface pass; "": that of the surface
	ContentType string
	Body        []byte              // the client's request, decompressed; masked by Redactor
	Spans       []codec.Span        // where Body may be cut, as [codec.Envelope.Blocks] returns them; nil: nowhere
	Items       []codec.Span        // those of Spans that are messages or input items; nil: unknown
	Prints      []codec.Fingerprint // of Spans in Body; nil: unknown

	Redactor *redact.Redactor // from [store.Credentials.Redactor]; it masked Body, and masks everything else; nil: the account's
	Redacted redact.Tally     // what was masked in Body

	Started time.Time // zero: now
}

// Why a request is not a turn of its conversation.
const (
	AuxiliaryTokens  = "count_tokens"
	AuxiliaryTitle   = "title"
	AuxiliarySummary = "summary"
	AuxiliaryPrewarm = "prewarm"
	AuxiliaryReplay  = "replay" // a recorded request sent again
)

// HeaderField is one header line.
type HeaderField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Closing is how an exchange ended.
type Closing struct {
	Outcome       Outcome
	Status        int       // HTTP status sent to the client
	FirstByte     time.Time // first byte of the answer; zero: none came
	LastByte      time.Time
	ModelServed   string // the provider's name for it
	Usage         codec.Usage
	Cost          *Cost // nil: unknown
	FinishReason  string
	ResponseID    string       // id of the answer in the client's format
	Error         *codec.Error // as told to the client, if Outcome is not complete; Cause is not kept
	Translation   []string     // what the crossing dropped or emulated
	ContentType   string       // of the answer
	ProviderReqID string       // the provider's own request id
	Attempts      []Attempt    // at providers; none if the only one succeeded
	Recall        *RecallInfo  // what was recalled for the request; nil: nothing to recall
	Unrecorded    int64        // bytes of the request behind those in the opening
	Repeats       string       // what the agent repeats at the end of the request, and how often; "": nothing
	Burst         string       // what was spent in the last minutes when the request came, where that is much; "": it is not
	StandIn       *StandIn     // the model asked last, if it is not the one in the opening

	// Answer is the whole answer as read from the bytes that were recorded, which saves reading them again; nil: unread.
	// It is the store's from then on.
	Answer *codec.Answer
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

// StandIn is the model that was asked instead of another, and how.
type StandIn struct {
	Provider  string
	Format    codec.Format
	ModelSent string
	Simulated bool
}

// Outcome is how an exchange ended.
type Outcome uint8

const (
	OutcomeOpen          Outcome = iota // still running
	OutcomeComplete                     // with the whole answer
	OutcomeClientClosed                 // the client left before the end; the answer is what had arrived
	OutcomeUpstreamError                // the provider failed, before or during the answer
	OutcomeInterrupted                  // this server broke it off: it was killed, crashed, or could not go on
	OutcomeRefused                      // this server refused an authenticated caller's request, mostly before a provider was called
	OutcomeStopped                      // it had not ended when the time to drain was over: a planned stop or restart
	OutcomeDamaged                      // only in lists: the record is unreadable, see Error
)

var outcomeNames = [...]string{"open", "complete", "client_closed", "upstream_error", "interrupted", "refused", "stopped", "damaged"}

// String returns the name used in records, logs and metrics.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Ended reports whether an exchange came to its end here: then its record states the size of the stored answer.
func (o Outcome) Ended() bool { return o != OutcomeOpen && o != OutcomeInterrupted }

// parseOutcome reads a name as [Outcome.String] writes it.
func parseOutcome(name string) (Outcome, error) {
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
	*o, err = parseOutcome(string(text))
	return err
}

// ExchangeInfo is what lists show of an exchange, and what its record holds.
type ExchangeInfo struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	Session   string    `json:"session,omitempty"` // not in the record: sessions can be merged and split
	KeyID     string    `json:"key_id,omitempty"`
	Outcome   Outcome   `json:"outcome"`
	Started   time.Time `json:"started"`
	Imported  time.Time `json:"imported,omitzero"` // into this store; zero: it was captured here
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
	Cost          *Cost      `json:"cost,omitempty"` // nil: unknown, for instance of a model without a price
	FinishReason  string     `json:"finish_reason,omitempty"`
	ResponseID    string     `json:"response_id,omitempty"`
	ProviderReqID string     `json:"provider_request_id,omitempty"`
	Error         *ErrorInfo `json:"error,omitempty"`
	Translation   []string   `json:"translation,omitempty"`
	Attempts      []Attempt  `json:"attempts,omitempty"`

	PreviousResponse string `json:"previous_response,omitempty"` // id of the response that the request continues

	Recall *RecallInfo `json:"recall,omitempty"`

	Target       string        `json:"target,omitempty"` // method and path, on the surface pass alone
	Header       []HeaderField `json:"header,omitempty"`
	RequestType  string        `json:"request_content_type,omitempty"`
	ResponseType string        `json:"response_content_type,omitempty"`
	RequestSize  int64         `json:"request_bytes"`
	ResponseSize int64         `json:"response_bytes"` // recorded

	// ResponseUnrecorded is how many bytes of the answer were not recorded, see [store.Options.AnswerBytes].
	ResponseUnrecorded int64 `json:"response_bytes_unrecorded,omitempty"`
	RequestUnrecorded  int64 `json:"request_bytes_unrecorded,omitempty"` // the same of the request, on the surface pass alone

	Repeats string `json:"repeats,omitempty"` // what the agent repeats, such as "5 times Bash"
	Burst   string `json:"burst,omitempty"`   // what was spent in the last minutes, where that is most of a burst's budget

	Part []byte `json:"-"` // a short answer as it is stored; only on the way from and to the store

	Redactions []Redaction `json:"redactions,omitempty"` // by name

	Tags []string `json:"tags,omitempty"` // set by people
	Note string   `json:"note,omitempty"`

	Committed string `json:"committed,omitempty"` // [CommittedLocal]: it should have been with the cluster's brokers before it ended, and was not
}

// CommittedLocal marks an exchange that only its edge had when it ended.
const CommittedLocal = "local"

// KeptSince returns when the store got the exchange. Its age counts from then.
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
	CacheLong     int64      `json:"cache_write_long,omitempty"` // the part of CacheWrite that is kept longer and costs more
	Output        int64      `json:"output,omitempty"`
	Reasoning     int64      `json:"reasoning,omitempty"`
	Tier          codec.Tier `json:"tier,omitempty"`      // of service; not in a session
	Estimated     bool       `json:"estimated,omitempty"` // the provider did not say; in a session: for at least one exchange
}

// ErrorInfo is the part of a [codec.Error] that clients see.
type ErrorInfo struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Param   string `json:"param,omitempty"`
}

// Exchange is one exchange with its bytes.
type Exchange struct {
	ExchangeInfo
	RawRequest  []byte `json:"-"` // as the client sent it, except for redactions
	RawResponse []byte `json:"-"` // as the client got it, or the part that had arrived; except for redactions

	// Items is set only while a large exchange is digested right after its answer. It says whether RawRequest is
	// complete. Without a request it is for one that is read back.
	Items *RequestItems `json:"-"`

	// Derived are the keys of the request from when it was well-formed on arrival; empty if it did not need any. nil:
	// unknown.
	Derived *chatkey.Keys `json:"-"`

	// Reader has already read RawResponse up to the last whole event; nil: not read.
	Reader StreamReader `json:"-"`

	// Answer is what RawResponse says, if that is one object; nil: unread.
	Answer *codec.Answer `json:"-"`

	// Stored is the first part of RawResponse in its stored form before compression, while an exchange is digested
	// whose events are separated there; nil: the part itself.
	Stored []byte `json:"-"`
}

// clientNames maps the product names in User-Agent headers to the names that people use for programs.
var clientNames = map[string]string{
	"claude-cli":     "claude-code",
	"claude":         "claude-code",
	"codex_exec":     "codex",
	"codex_cli_rs":   "codex",
	"codex-tui":      "codex",
	"codex_vscode":   "codex",
	"qwencode":       "qwen-code",
	"qwen":           "qwen-code",
	"geminicli":      "gemini-cli",
	"asyncopenai":    "openai",
	"asyncanthropic": "anthropic",
}

// ClientName returns the stable name of a program, by its product name or the name that people use.
func ClientName(product string) string {
	if len(product) > maxClientName {
		product = strings.ToValidUTF8(product[:maxClientName], "")
	}
	product = strings.ToLower(product)
	if name := clientNames[product]; name != "" {
		return name
	}
	return product
}

// maxClientName is how many bytes of a product's name are kept.
const maxClientName = 64

// Client returns the name of the program that sent the request, without its version; "" if it did not say.
func (x *ExchangeInfo) Client() string {
	for _, h := range x.Header {
		if strings.EqualFold(h.Name, "User-Agent") {
			product, _, _ := strings.Cut(h.Value, "/")
			return ClientName(product)
		}
	}
	return ""
}

// ReadInfo reads an exchange's record.
func ReadInfo(record []byte) (*ExchangeInfo, error) {
	info := new(ExchangeInfo)
	return info, Decode(record, info)
}

// Describe sets a person's description of the exchange, masked, and returns its record.
func (x *ExchangeInfo) Describe(d Description, redactor *redact.Redactor) (record []byte, err error) {
	if d.Title != nil {
		return nil, codec.Invalid("title", "an exchange has no title; its session has one")
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	d = RedactDescription(redactor, d)
	d.Set(nil, &x.Tags, &x.Note)
	return Encode(x), nil
}
