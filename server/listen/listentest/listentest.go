// Package listentest makes certificates for tests.
package listentest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/listen"
)

// Authority signs certificates.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	File        string // its certificate, as PEM
}

// NewAuthority makes an authority with a name of its own.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	a.certificate = a.sign(template, template, a.key, a.key)
	a.File = filepath.Join(t.TempDir(), name+".pem")
	a.write(a.File, "CERTIFICATE", a.certificate.Raw)
	return a
}

// Issue writes a certificate for this machine, named certificate.pem and key.pem in dir, for servers and for clients.
func (a *Authority) Issue(dir, name string, notAfter time.Time) listen.Files {
	a.t.Helper()
	key := a.newKey()
	made := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	a.ok(err)
	files := listen.Files{Certificate: filepath.Join(dir, "certificate.pem"), Key: filepath.Join(dir, "key.pem")}
	a.write(files.Certificate, "CERTIFICATE", made.Raw)
	a.write(files.Key, "PRIVATE KEY", der)
	return files
}

// Client is the configuration of a client that trusts the authority, and shows the certificate of files, if any.
func (a *Authority) Client(shown ...listen.Files) *tls.Config {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(a.certificate)
	for _, files := range shown {
		pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
		a.ok(err)
		config.Certificates = append(config.Certificates, pair)
	}
	return config
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.ok(err)
	return key
}

func (a *Authority) sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	a.ok(err)
	made, err := x509.ParseCertificate(der)
	a.ok(err)
	return made
}

func (a *Authority) write(file, kind string, der []byte) {
	a.ok(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *Authority) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
