package listen

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
)

// Files are the PEM files of a listener with TLS.
type Files struct {
	Certificate string // the server's, followed by the chain
	Key         string // its private key
	ClientCA    string // the authority of client certificates; "" requests none
}

// Certificates are the certificates of all listeners with TLS. They can be replaced while connections are open: later
// handshakes see the new ones.
type Certificates struct {
	current atomic.Pointer[loaded]
}

// loaded is the result of reading the files.
type loaded struct {
	files  Files
	stamp  [sha256.Size]byte // of the files' contents
	config *tls.Config
}

// LoadCertificates reads the files.
func LoadCertificates(files Files) (*Certificates, error) {
	c := &Certificates{}
	_, err := c.Reload(files)
	return c, err
}

// Reload rereads the files, or reads others. After an error nothing has changed: the previous pair stays in use.
// changed is false if the contents are the same.
func (c *Certificates) Reload(files Files) (changed bool, err error) {
	text, err := read(files)
	if err != nil {
		return false, err
	}
	before := c.current.Load()
	if before != nil && before.files == files && before.stamp == text.stamp() {
		return false, nil
	}
	config, err := text.config(files)
	if err != nil {
		return false, err
	}
	c.current.Store(&loaded{files: files, stamp: text.stamp(), config: config})
	return true, nil
}

// Refresh rereads the files in use.
func (c *Certificates) Refresh() (changed bool, err error) { return c.Reload(c.current.Load().files) }

// Files returns those in use.
func (c *Certificates) Files() Files { return c.current.Load().files }

// Config is for [tls.Server]. It always uses the current certificates.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load().config, nil
		},
	}
}

// text is the contents of the files.
type text struct{ certificate, key, authorities []byte }

func read(files Files) (t text, err error) {
	if t.certificate, err = os.ReadFile(files.Certificate); err != nil {
		return t, err
	}
	if t.key, err = os.ReadFile(files.Key); err != nil {
		return t, err
	}
	if files.ClientCA != "" {
		t.authorities, err = os.ReadFile(files.ClientCA)
	}
	return t, err
}

func (t *text) stamp() [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{t.certificate, t.key, t.authorities}, []byte{0}))
}

func (t *text) config(files Files) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(t.certificate, t.key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are not a certificate and its key: %w", files.Certificate, files.Key, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"}, // tells a client that needs HTTP/2 that it is not spoken here
	}
	if files.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(t.authorities) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", files.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.SessionTicketsDisabled = true // a session must not outlive the trust in its client
	}
	return config, nil
}

// Leaf returns the server's certificate in valid files, for its dates and names.
func Leaf(files Files) (*x509.Certificate, error) {
	t, err := read(files)
	if err != nil {
		return nil, err
	}
	config, err := t.config(files)
	if err != nil {
		return nil, err
	}
	return config.Certificates[0].Leaf, nil
}
