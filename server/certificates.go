package server

import (
	"errors"

	"github.com/mnemeproxy/mneme/server/listen"
)

// errNoTLS is the error for a certificate for a server without TLS.
var errNoTLS = errors.New("a listener with TLS needs a restart")

// UseCertificates switches to other files, or reloads the same ones. After an error the previous certificates stay in
// use.
func (s *Server) UseCertificates(files listen.Files) error {
	if s.certificates == nil || files == (listen.Files{}) {
		if s.certificates == nil && files == (listen.Files{}) {
			return nil
		}
		return errNoTLS
	}
	_, err := s.certificates.Reload(files)
	return err
}

// RenewCertificates rereads the files in use, and reports whether the certificate has changed. After an error, for
// instance from a pair of which only one file is written yet, the previous one stays in use.
func (s *Server) RenewCertificates() (renewed bool, err error) {
	if s.certificates == nil {
		return false, nil
	}
	return s.certificates.Refresh()
}
