package identity

import "github.com/mnemeproxy/mneme/store/redact"

// Redactor is that of the installation with the account's own provider credentials, and those that its caller brought along:
// all of them are masked by their value. Other accounts' are not looked for: what is masked would tell who has them. It is
// nil where nothing is to be masked.
func (s *Credentials) Redactor(account string, brought ...string) *redact.Redactor {
	r := s.redact
	if r == nil {
		return nil
	}
	number, ok := s.accounts.Find(account)
	if !ok {
		return r.With(brought...)
	}
	own, changes := s.opened.lookMasked(number)
	if own == nil {
		own = s.all(account)
		s.opened.keepMasked(number, own, changes)
	}
	if len(brought) == 0 {
		return own.redactor
	}
	return r.With(append(brought, own.list...)...)
}

// Guard adds credentials of the installation, which are masked in what is stored of any account, see [redact.Redactor.Guard].
func (s *Credentials) Guard(credentials ...string) { s.redact.Guard(credentials...) }

// all opens all credentials of an account. One that cannot be opened cannot be used, either.
func (s *Credentials) all(account string) *maskedCredentials {
	own := new(maskedCredentials)
	providers, err := s.List(account)
	if err != nil {
		s.log.Error("the credentials of an account cannot be read, and are not masked by their value", "account", account, "error", err)
	}
	for _, provider := range providers {
		if secret, found, err := s.Get(account, provider); err == nil && found {
			own.list = append(own.list, secret)
		}
	}
	own.redactor = s.redact.With(own.list...)
	return own
}
