package api

// What only a running server can say.

// Provider is one that a running server leads to.
type Provider struct {
	Name      string `json:"name"`
	Simulated bool   `json:"simulated"`
}

// Process is the process of a server.
type Process struct {
	ID int `json:"pid"`
}

// Invitation asks for a code for the page at /ui.
type Invitation struct {
	Account string `json:"account"`
}

// Invited is the answer to an [Invitation].
type Invited struct {
	Code string `json:"code"` // good once, for a minute
}
