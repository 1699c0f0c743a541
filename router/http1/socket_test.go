package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// connected returns a socket with little room for what its peer has not read.
func connected(t *testing.T) (*socket, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	_ = dialed.(*net.TCPConn).SetWriteBuffer(4 << 10)
	return newSocket(dialed), peer
}

// Pieces are as long as those of which the scheduler does not hear, and one is longer.
func TestASocketWaitsForASlowPeerAndLosesNothing(t *testing.T) {
	s, peer := connected(t)
	sent := make([]byte, 8<<20)
	for i := range sent {
		sent[i] = byte(i >> 8 * 31)
	}
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(io.MultiReader(io.LimitReader(peer, 1000), peer)) // little, then the rest
		got <- all
	}()
	for rest := sent; len(rest) > 0; {
		piece := rest[:min(len(rest), 60_000)]
		if len(rest) == len(sent) {
			piece = rest[:500_000]
		}
		if n, err := s.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(piece), err)
		}
		rest = rest[len(piece):]
	}
	_ = s.Close()
	if !bytes.Equal(<-got, sent) {
		t.Error("the peer got other bytes")
	}
}

func TestASocketReadsWhatArrivesAndItsEnd(t *testing.T) {
	s, peer := connected(t)
	if !s.silent() {
		t.Error("there was something to read")
	}
	go func() {
		_, _ = io.WriteString(peer, "hello")
		_ = peer.Close()
	}()
	all, err := io.ReadAll(s)
	if string(all) != "hello" || err != nil {
		t.Errorf("%q %v", all, err)
	}
	if s.silent() {
		t.Error("a connection that has ended passes for one that waits")
	}
}

// That is how a request is cut, in any phase.
func TestClosingASocketEndsItsReadAndItsWrite(t *testing.T) {
	for name, wait := range map[string]func(*socket) error{
		"read": func(s *socket) error { _, err := s.Read(make([]byte, 10)); return err },
		"write": func(s *socket) error {
			for {
				if _, err := s.Write(make([]byte, 60_000)); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := connected(t)
			ended := make(chan error, 1)
			go func() { ended <- wait(s) }()
			_ = s.Close()
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}
