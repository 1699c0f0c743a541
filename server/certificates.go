package server

import (
	"errors"

	"github.com/mnemeproxy/mneme/server/listen"
)

// errNoTLS says that a certificate came for a server without TLS.
var errNoTLS = errors.New("a listener with TLS needs a restart")

// UseCertificates takes other files into use, or the same ones read again. With an error the ones before stay in use.
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

// RenewCertificates reads the files in use again, and reports whether they hold another certificate than before. With an
// error, as from a pair of which one file is written, the one before stays in use.
func (s *Server) RenewCertificates() (renewed bool, err error) {
	if s.certificates == nil {
		return false, nil
	}
	return s.certificates.Refresh()
}
