package router

import (
	"io"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router/http1"
)

// A Call is one request to a provider.
type Call struct {
	Operation Operation
	Format    codec.Format // the upstream format
	Model     string       // as sent; in format Gemini and on some hosts it is in the path
	Stream    bool
	Body      []byte // the caller's again once Do has failed, or the reply's body is closed or has dropped it; never changed
	Header    Header // the client's canonical headers, filtered by an allow-list; may be nil
	Query     string // the client's raw query; only beta=true goes upstream
	// Credential is the caller's or the account's own, and never replaced. The zero Credential means the server's.
	Credential Credential
	Account    string        // the caller's account: its failures do not affect others
	Affinity   uint64        // calls with the same [Affinity] go to the same healthy place; 0: to any
	Observe    func(Attempt) // called with every finished attempt, within Do; may be nil

	Method string    // of operation [Pass], as are the next three
	Path   string    // see [Provider.passURL]; Query is sent as it is
	Upload io.Reader // instead of Body: it is sent as it arrives, once; nil: there is none
	Size   int64     // of Upload; -1: unknown
}

func (c *Call) method() string {
	switch c.Operation {
	case ListModels:
		return http.MethodGet
	case Pass:
		return c.Method
	default:
		return http.MethodPost
	}
}

// Operation is the kind of a request to a provider.
type Operation uint8

const (
	Generate    Operation = iota // an answer of a model
	CountTokens                  // the size of a prompt
	Embed                        // vectors
	ListModels                   // the models on offer; GET, no body
	Compact                      // a conversation, made shorter
	Pass                         // whatever else a provider offers, by its path
)

// String is the name used in records and metrics.
func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return "unknown"
}

var operationNames = [...]string{"generate", "count_tokens", "embed", "models", "compact", "pass"}

// A Failure says why an attempt gave no useful answer, as far as it decides where the next one goes.
type Failure uint8

// String returns the name used in records and metrics; "" for none.
func (f Failure) String() string { return failureNames[f] }

const (
	FailureNone              Failure = iota
	FailureRateLimited               // 429: the credential has used up its allowance
	FailureNoCredit                  // 402: the credential has no credit
	FailureCredentialRefused         // 401
	FailureOverloaded                // 503, 529: the endpoint is overloaded
	FailureServerError               // another 5xx
	FailureUnreachable               // no connection, or one that ended before anything was sent
	FailureCut                       // the connection ended before an answer
	FailureNoFirstByte               // the first-byte limit
	FailureUnreadable                // no HTTP, or a redirect
	FailureBreakerOpen               // not asked, because the breaker is open
)

var failureNames = [...]string{
	"", "rate_limited", "no_credit", "credential_refused", "overloaded", "server_error", "unreachable", "cut", "no_first_byte",
	"unreadable", "breaker_open",
}

// An Attempt is one try to get an answer.
type Attempt struct {
	Provider string
	Address  string // host:port of the endpoint
	Key      int    // number of the server's credential in the configuration, from 1; 0: the caller's own
	Resends  int    // attempts of the same call that began before it
	Status   int    // HTTP status; 0: there was no answer
	Failure  Failure
	CoolDown time.Duration // how long the endpoint or the credential is skipped from then on
	Retried  bool          // another attempt follows at this provider
	Started  time.Time
	Took     time.Duration // until the header of the answer
}

// Header is a list of fields by canonical names, with the methods of a map.
type Header = http1.Header

// Field is one of them.
type Field = http1.Field
