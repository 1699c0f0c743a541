package router

import "time"

// A Reply is the answer of a provider with any final status except a redirect. Its body has yet to be read.
type Reply struct {
	Status int
	Header Header // as received; [PassesDownstream] reports what a client may see
	// RetryAfter is how long an error answer asks to wait before the next request, by its header, or by its body if the
	// cause is a limit or lack of capacity; 0: no time given. At most a day.
	RetryAfter time.Duration
	// Body ends with io.EOF if the answer ended properly in HTTP; the format's decoder decides whether it is complete.
	// Any other error is a *[codec.Error], final, and wraps the context's error if the caller had given up. Close never
	// blocks and is needed after the end, too.
	Body *Body
}
