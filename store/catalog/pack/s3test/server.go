// Package s3test runs an S3-compatible service for tests: a server of its own over a temporary directory, on loopback.
package s3test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a running service.
type Server struct {
	dir, address string
	process      *exec.Cmd
	log          *bytes.Buffer
	ended        chan struct{}
	buckets      atomic.Int32
}

const (
	accessKey = "mneme"
	secretKey = "mneme-test-secret" //nolint:gosec // of a server that runs only during a test
	bounded   = 2 * time.Minute     // limit of waiting for the service
)

// Start runs a server for the duration of a test, which is skipped if no server was built. It sets the server's address
// and credentials in the test's environment.
func Start(t testing.TB) *Server {
	t.Helper()
	if Program() == "" {
		t.Skip("NOT TESTED: there is no S3 service; make s3-server builds one")
	}
	s := &Server{dir: t.TempDir()}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = free.Addr().String()
	_ = free.Close()
	for name, value := range Environment(s.address, secretKey) {
		t.Setenv(name, value)
	}
	t.Cleanup(s.Kill)
	s.Run(t)
	return s
}

// Environment returns the environment variables for a client of the service at an address.
func Environment(address, secret string) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_S3": "http://" + address, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "",
	}
}

// Command returns a command that runs the service at an address, over a directory whose folders are its buckets.
func Command(address, dir, secret string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), Program(), "--quiet", "--port", address, "posix", dir) // [Server.Kill] ends it, after the test's context
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secret)
	return c
}

// Program returns the path of the server: from PATH, or as built by make for this module; "" if there is none.
func Program() string {
	if path, err := exec.LookPath("versitygw"); err == nil {
		return path
	}
	_, here, _, _ := runtime.Caller(0)
	root, _, found := strings.Cut(here, "/store/catalog/")
	if !found { // built with -trimpath
		return ""
	}
	paths, _ := filepath.Glob(filepath.Join(root, "bin", "versitygw-*"))
	if len(paths) == 0 {
		return ""
	}
	return paths[len(paths)-1]
}

// Run starts the server again, after [Server.Kill].
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.process, s.log = Command(s.address, s.dir, secretKey), new(bytes.Buffer)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	process, ended := s.process, make(chan struct{})
	s.ended = ended
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	for deadline := time.Now().Add(bounded); ; {
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", s.address)
		if err == nil {
			_ = connection.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("the S3 service has ended:\n%s", s.log.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the S3 service cannot be reached: %v", err)
		}
	}
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.ended
}

// Bucket creates an empty bucket, and returns its URL.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("memory-%d", s.buckets.Add(1))
	if err := os.Mkdir(filepath.Join(s.dir, name), 0o750); err != nil {
		t.Fatal(err)
	}
	return "s3://" + name
}

// Files returns the paths of all objects of a bucket on disk.
func (s *Server) Files(t testing.TB, bucket string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(s.dir, strings.TrimPrefix(bucket, "s3://")), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
