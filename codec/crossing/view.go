package crossing

import "unsafe"

// view is b as a string without a copy, for keys of maps that live as long as the request: names and ids are views into
// the client's body or memory of the request, which stay as they are until the exchange is released. An agent's history
// holds hundreds of them, and copying each would cost more than translating it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
