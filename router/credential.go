package router

// A Credential is the header that authenticates to a provider.
type Credential struct {
	Header string // canonical name, e.g. "Authorization"
	Value  string // e.g. "Bearer …"
}

// IsZero reports whether there is no credential.
func (c Credential) IsZero() bool { return c.Value == "" }
