package server

import (
	"context"
	"errors"
	"time"

	"github.com/mnemeproxy/mneme/server/listen"
)

// renewalInterval is how often the files of certificates are looked at. They are small, and read as a whole: their
// times say little where they are links that are changed under us, as in a mounted Kubernetes secret.
const renewalInterval = time.Second

// renewCertificates takes certificates that were renewed into use, until ctx ends. A pair that is none, as it stands
// between the writing of its two files, leaves the one before in use.
func (s *Server) renewCertificates(ctx context.Context) {
	tick := time.NewTicker(renewalInterval)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := s.certificates.Refresh()
		switch {
		case err != nil && err.Error() != told:
			told = err.Error()
			s.log.Error("the certificate was not taken; the one before it stays in use", "reason", told)
		case changed:
			told = ""
			s.log.Info("the certificate was renewed")
		case err == nil:
			told = ""
		}
	}
}

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
