package edge

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// RetrySoon is the wait that clients are asked for when the proxy itself is full.
const RetrySoon = time.Second

// ErrDraining answers new requests during the drain, and is the cause with which open ones are aborted when its time is
// over.
var ErrDraining = &codec.Error{
	Kind: codec.KindOverloaded, Message: "The proxy is shutting down; send the request again.", RetryAfter: RetrySoon,
}

// errFull answers requests over the limit.
var errFull = &codec.Error{
	Kind: codec.KindOverloaded, Message: "The proxy is handling as many requests as it takes at a time. Try again in a second.", RetryAfter: RetrySoon,
}

// ErrNoMemory answers requests for which there is no room.
var ErrNoMemory = &codec.Error{
	Kind: codec.KindOverloaded, Message: "The proxy is holding as many bytes of requests and answers as it has room for (limits.in_flight_bytes). Try again in a second.", RetryAfter: RetrySoon,
}

// TooLarge returns the error for a body over the limit.
func TooLarge(limit int64) *codec.Error {
	return codec.Errorf(codec.KindTooLarge, "The body has more than %d bytes, the limit of this proxy (limits.body_bytes).", limit)
}

// errMalformed answers a request whose head or framing cannot be read.
var errMalformed = codec.Errorf(codec.KindInvalidRequest, "The request is malformed: its header or the framing of its body cannot be read.")

// errHeadTooLarge answers heads and trailers over the limit.
var errHeadTooLarge = codec.Errorf(codec.KindTooLarge, "The request's header is larger than limits.header_bytes.")

func wholeSeconds(wait time.Duration) int { return int((wait + time.Second - 1) / time.Second) }
