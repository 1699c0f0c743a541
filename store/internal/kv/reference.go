package kv

// SessionRef identifies a session of an account.
type SessionRef struct {
	Account AccountNumber
	ID      SessionID
}

// ExchangeRef identifies an exchange of an account.
type ExchangeRef struct {
	Account AccountNumber
	ID      ExchangeID
}
