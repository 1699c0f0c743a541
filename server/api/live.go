package api

// Types about a running server.

// Provider is a provider that a running server uses.
type Provider struct {
	Name      string `json:"name"`
	Simulated bool   `json:"simulated"`
}

// Process is the process of a server.
type Process struct {
	ID int `json:"pid"`
}

// Invitation requests a code for the page at /ui.
type Invitation struct {
	Account  string `json:"account"`
	Operator bool   `json:"operator,omitempty"` // the page shows every account
}

// Invited is the answer to an [Invitation].
type Invited struct {
	Code string `json:"code"` // valid once, for a minute
}
