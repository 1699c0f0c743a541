package edge

import (
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/listen"
)

// Options configure a [Server]. All are required unless marked otherwise.
type Options struct {
	Listen       []string             // addresses, as [listen.Parse] reads them; at least one
	Certificates *listen.Certificates // nil without TLS
	Inherited    *listen.Inherited    // sockets that are open already; nil: none
	Blocking     bool                 // notice departures by reading, as on systems other than Linux
	Log          *slog.Logger

	Connections           int           // open at a time
	ConnectionsPerAddress int           // of one client address; 0: only the limit above
	Requests              int           // handled at a time
	BodyBytes             int64         // largest request body as it is sent
	HeaderBytes           int           // largest request head
	Memory                *Budget       // for what is read from clients
	ReadTimeout           time.Duration // for a client to send its request, or to read a piece of the answer
	DrainDelay            time.Duration // between the start of a shutdown and the closing of the listeners
	DrainTimeout          time.Duration // for open requests to end by themselves
	AbortTimeout          time.Duration // for aborted requests to end; 0: 5 s

	Single    []string                                // headers that may occur only once in a request
	Surface   func(path []byte) codec.Format          // returns the surface in whose shape errors of a path are written
	Fail      func(*Request, *Response, *codec.Error) // answers a request that is refused before its handler
	Refused   func(limit string)                      // called with the limit that refused a connection
	NotFound  Handler                                 // for paths that are not served; within the limit of requests
	NotServed func(*Request, *Response)               // answers a method that a path does not have; OPTIONS with headers alone
}
