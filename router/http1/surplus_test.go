package http1

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// certificate is one for "example.com", and what a client has to trust for it.
var certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.TLS.Certificates[0], roots
})

// A segmented connection gathers what is written to it and sends that as it is told to.
type segmented struct {
	net.Conn
	held bytes.Buffer
	hold bool
}

func (s *segmented) Write(p []byte) (int, error) {
	if s.hold {
		return s.held.Write(p)
	}
	return s.Conn.Write(p)
}

// flush sends the first n bytes of what is held, all of it where n is not above 0.
func (s *segmented) flush(n int) {
	if n <= 0 || n > s.held.Len() {
		n = s.held.Len()
	}
	_, _ = s.Conn.Write(s.held.Next(n))
}

// secured serves script over TLS. What it writes to c goes out as out says, a record for each write.
func secured(t testing.TB, version uint16, script func(n int, c *tls.Conn, out *segmented, in *bufio.Reader)) (*origin, *Client) {
	pair, roots := certificate()
	o := serve(t, func(n int, raw net.Conn, _ *bufio.Reader) {
		out := &segmented{Conn: raw}
		c := tls.Server(out, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: version, MaxVersion: version})
		if c.Handshake() == nil {
			script(n, c, out, bufio.NewReader(c))
		}
	})
	c := client(t, o)
	c.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: version}
	return o, c
}

const (
	honest = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhonest"
	stray  = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
)

// What stands behind an answer. The parts of it come in one piece with the answer, or in pieces of their own.
var surpluses = map[string][]string{
	"a second answer":                       {stray},
	"a second answer, its body apart":       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "stray"},
	"a second answer in chunks":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstray\r\n0\r\n\r\n"},
	"the beginning of a second answer":      {"HTTP/1.1 200 OK\r\nContent-"},
	"the first byte of a second answer":     {"H"},
	"many answers":                          {strings.Repeat(stray, 20)},
	"an answer that closes":                 {"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 5\r\n\r\nstray"},
	"an interim answer":                     {"HTTP/1.1 100 Continue\r\n\r\n"},
	"an interim answer and a second answer": {"HTTP/1.1 103 Early Hints\r\n\r\n", stray},
	"a line break":                          {"\r\n"},
	"a line feed":                           {"\n"},
	"a line break, then a second answer":    {"\r\n", stray},
	"a NUL":                                 {"\x00"},
	"text":                                  {"and so on"},
	"a last chunk once more":                {"0\r\n\r\n"},
	"more than TLS takes at once":           {strings.Repeat("x", 40<<10)},
}

// framings are answers with the body "first", in pieces.
var framings = map[string][]string{
	"by length":                 {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"},
	"by length, the body apart": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "first"},
	"in chunks":                 {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"},
	"in chunks, each apart":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nfirst\r\n", "0\r\n\r\n"},
	"in chunks, with a trailer": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", "0\r\nA: b\r\n\r\n"},
	"large":                     {"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n", strings.Repeat("f", 50000)},
	"of no length":              {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	"without a body":            {"HTTP/1.1 204 No Content\r\n\r\n"},
	"interim first":             {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"},
}

// How the pieces of an answer and of what stands behind it come.
const (
	inOneRecord  = iota
	inOneSegment // a record for each piece
	inTwo        // as before, but the end of the last record comes later
	cuts
)

// Whatever stands behind an answer, and however it comes, the next client gets its own answer.
func TestWhatStandsBehindAnAnswerIsNobodysAnswer(t *testing.T) {
	for i, framing := range slices.Sorted(maps.Keys(framings)) {
		for j, what := range slices.Sorted(maps.Keys(surpluses)) {
			pieces, cut := slices.Concat(framings[framing], surpluses[what]), (i+j)%cuts // each with each
			t.Run(fmt.Sprintf("%s, %s, %d", framing, what, cut), func(t *testing.T) {
				t.Parallel()
				t.Run("plain", func(t *testing.T) {
					o := serve(t, func(n int, c net.Conn, in *bufio.Reader) {
						for i := 0; awaitRequest(in); i++ {
							if n == 0 && i == 0 {
								_, _ = io.WriteString(c, strings.Join(pieces, ""))
								continue
							}
							_, _ = io.WriteString(c, honest)
						}
					})
					othersAreHonest(t, o, client(t, o))
				})
				for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					if version == tls.VersionTLS12 && cut != inOneSegment {
						continue // a handshake costs more than all the rest
					}
					t.Run(tls.VersionName(version), func(t *testing.T) {
						o, c := secured(t, version, func(n int, c *tls.Conn, out *segmented, in *bufio.Reader) {
							for i := 0; awaitRequest(in); i++ {
								if n > 0 || i > 0 {
									_, _ = io.WriteString(c, honest)
									continue
								}
								out.hold = true
								if cut == inOneRecord {
									_, _ = io.WriteString(c, strings.Join(pieces, ""))
								} else {
									for _, p := range pieces {
										_, _ = io.WriteString(c, p)
									}
								}
								out.hold = false
								if cut == inTwo {
									out.flush(out.held.Len() - 3)
								}
								out.flush(0)
							}
						})
						othersAreHonest(t, o, c)
					})
				}
			})
		}
	}
}

// othersAreHonest makes the first request, whose answer has something behind it, and then more.
func othersAreHonest(t *testing.T, o *origin, c *Client) {
	t.Helper()
	if _, body, err := ask(t, c); err != nil || body != "" && body[0] != 'f' {
		t.Fatalf("the first answer: %q %v", body, err)
	}
	for range 2 {
		if _, body, err := ask(t, c); body != "honest" || err != nil {
			t.Fatalf("the answer after it: %q %v", body, err)
		}
	}
	if n := o.opened.Load(); n != 2 {
		t.Errorf("%d connections were opened", n)
	}
}

// A part of a record may become an answer once it is whole.
func TestAPartOfARecordIsEnoughToGiveAConnectionUp(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, part := range []int{1, 4, 5, 6, 20} {
			rest := make(chan struct{})
			o, c := secured(t, version, func(n int, c *tls.Conn, out *segmented, in *bufio.Reader) {
				for i := 0; awaitRequest(in); i++ {
					if n > 0 || i > 0 {
						_, _ = io.WriteString(c, honest)
						continue
					}
					out.hold = true
					_, _ = io.WriteString(c, honest)
					whole := out.held.Len()
					_, _ = io.WriteString(c, stray)
					out.flush(whole + part)
					out.hold = false
					<-rest
					out.flush(0)
				}
			})
			if _, body, err := ask(t, c); body != "honest" || err != nil {
				t.Fatalf("%q %v", body, err)
			}
			res, err := c.Do(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res); string(body) != "honest" || err != nil {
				t.Errorf("%d bytes of a record: %q %v", part, body, err)
			}
			close(rest)
			if n := o.opened.Load(); n != 2 {
				t.Errorf("%d bytes of a record: %d connections were opened", part, n)
			}
		}
	}
}

// What comes while a connection is idle is found before the next request is written on it.
func TestWhatComesOnAnIdleConnectionIsNobodysAnswer(t *testing.T) {
	for what, surplus := range surpluses {
		said := make(chan struct{})
		o, c := secured(t, tls.VersionTLS13, func(n int, c *tls.Conn, _ *segmented, in *bufio.Reader) {
			for i := 0; awaitRequest(in); i++ {
				_, _ = io.WriteString(c, honest)
				if n == 0 && i == 0 {
					<-said
					_, _ = io.WriteString(c, strings.Join(surplus, ""))
					said <- struct{}{}
				}
			}
		})
		for i := range 2 {
			if _, body, err := ask(t, c); body != "honest" || err != nil {
				t.Errorf("%s: %q %v", what, body, err)
			}
			if i == 0 {
				said <- struct{}{}
				<-said
			}
		}
		if n := o.opened.Load(); n != 2 {
			t.Errorf("%s: %d connections were opened", what, n)
		}
	}
}

func TestACleanConnectionOverTLSIsUsedAgain(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for framing, answer := range framings {
			o, c := secured(t, version, func(_ int, c *tls.Conn, _ *segmented, in *bufio.Reader) {
				for awaitRequest(in) {
					for _, piece := range answer {
						_, _ = io.WriteString(c, piece)
					}
				}
			})
			for range 5 {
				if _, _, err := ask(t, c); err != nil {
					t.Fatalf("%s: %v", framing, err)
				}
			}
			if n := o.opened.Load(); n != 1 {
				t.Errorf("%s, %s: %d connections were opened", tls.VersionName(version), framing, n)
			}
		}
	}
}

// An answer that is one too many must not move all that follow by one, no matter who asks and how long the honest ones take.
func TestOneStrayAnswerMovesNoOther(t *testing.T) {
	const clients, rounds = 16, 6
	var strayed atomic.Bool
	o, c := secured(t, tls.VersionTLS13, func(_ int, c *tls.Conn, out *segmented, in *bufio.Reader) {
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			out.hold = true
			own := r.Header.Get("X-Client")
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(own), own)
			if strayed.CompareAndSwap(false, true) {
				_, _ = io.WriteString(c, stray)
			} else {
				time.Sleep(5 * time.Millisecond) // the connections of the others are idle meanwhile
			}
			out.hold = false
			out.flush(0)
		}
	})
	c.MaxIdle = clients
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			for round := range rounds {
				own := fmt.Sprintf("account %d, client %d, round %d", i%2, i, round)
				r := request()
				r.Fields = append(r.Fields, Field{"X-Client", own})
				res, err := c.Do(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if body, err := io.ReadAll(res); string(body) != own || err != nil {
					t.Errorf("%s got %q, %v", own, body, err)
				}
			}
		})
	}
	asking.Wait()
	if n := o.opened.Load(); n > clients+1 {
		t.Errorf("%d connections were opened", n)
	}
}

// A provider that answers before the body has been read may take the rest of it for the next request, which its author has made up.
func TestAConnectionWhoseAnswerCameBeforeTheBodyIsGivenUp(t *testing.T) {
	read := make(chan struct{})
	o := serve(t, func(n int, c net.Conn, in *bufio.Reader) {
		if n > 0 {
			for awaitRequest(in) {
				_, _ = io.WriteString(c, honest)
			}
			return
		}
		_, _ = in.ReadByte()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
		<-read
		awaitRequest(in) // now it reads
		_, _ = io.WriteString(c, "0\r\n\r\n")
		_, _ = io.Copy(io.Discard, in)
	})
	c, r := client(t, o), request()
	r.Body = make([]byte, 16<<20) // more than the sockets hold
	res, err := c.Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*lastWrite, func() { close(read) })
	if body, err := io.ReadAll(res); string(body) != "first" || err != nil {
		t.Fatalf("%q %v", body, err)
	}
	if _, body, err := ask(t, c); body != "honest" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

// A recorder writes the records of a TLS 1.3 server itself, so that it can send what crypto/tls does not.
type recorder struct {
	out    io.Writer
	secret []byte
	seal   cipher.AEAD
	iv     []byte
	next   uint64
}

// newRecorder takes the secret from the log of keys.
func newRecorder(t *testing.T, out io.Writer, log string) *recorder {
	t.Helper()
	for line := range strings.Lines(log) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "SERVER_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(fields[2])
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{out: out}
			r.rekey(secret)
			return r
		}
	}
	t.Fatal("no secret in the log of keys")
	return nil
}

// expand is HKDF-Expand-Label of RFC 8446, section 7.1, without a context.
func expand(secret []byte, label string, size int) []byte {
	label = "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(size)), byte(len(label)))
	key, err := hkdf.Expand(sha256.New, secret, string(append(append(info, label...), 0)), size)
	if err != nil {
		panic(err)
	}
	return key
}

func (r *recorder) rekey(secret []byte) {
	block, err := aes.NewCipher(expand(secret, "key", 16))
	if err != nil {
		panic(err)
	}
	r.seal, _ = cipher.NewGCM(block)
	r.secret, r.iv, r.next = secret, expand(secret, "iv", 12), 0
}

const (
	handshake   = 22
	application = 23
)

func (r *recorder) record(kind byte, text string) []byte {
	inner := append([]byte(text), kind)
	head := binary.BigEndian.AppendUint16([]byte{application, 3, 3}, uint16(len(inner)+r.seal.Overhead()))
	nonce := bytes.Clone(r.iv)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^r.next)
	r.next++
	return append(head, r.seal.Seal(nil, nonce, inner, head)...)
}

// keyUpdate tells of new keys, and takes them.
func (r *recorder) keyUpdate(requested byte) []byte {
	b := r.record(handshake, string([]byte{24, 0, 0, 1, requested}))
	r.rekey(expand(r.secret, "traffic upd", sha256.Size))
	return b
}

// ticket is a session ticket (RFC 8446, section 4.6.1).
func (r *recorder) ticket() []byte {
	body := "\x00\x00\x0e\x10" + "\x00\x00\x00\x01" + "\x01\x07" + "\x00\x04abcd" + "\x00\x00"
	return r.record(handshake, "\x04\x00\x00"+string([]byte{byte(len(body))})+body)
}

// TLS has messages of its own, which may stand behind an answer as anywhere: they end no connection.
func TestMessagesOfTLSAreNoSurplus(t *testing.T) {
	pair, roots := certificate()
	for name, behind := range map[string]func(r *recorder) []byte{
		"nothing":           func(*recorder) []byte { return nil },
		"a ticket":          (*recorder).ticket,
		"two tickets":       func(r *recorder) []byte { return append(r.ticket(), r.ticket()...) },
		"new keys":          func(r *recorder) []byte { return r.keyUpdate(0) },
		"new keys of both":  func(r *recorder) []byte { return r.keyUpdate(1) },
		"keys and a ticket": func(r *recorder) []byte { return append(r.keyUpdate(1), r.ticket()...) },
		"an empty record":   func(r *recorder) []byte { return r.record(application, "") },
	} {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", apart ", apart), func(t *testing.T) {
				came := make(chan struct{}, 1)
				o := serve(t, func(_ int, raw net.Conn, _ *bufio.Reader) {
					var log strings.Builder
					c := tls.Server(raw, &tls.Config{
						Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, KeyLogWriter: &log,
					})
					if c.Handshake() != nil {
						return
					}
					if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
						t.Error("this machine does not choose AES-128-GCM")
						return
					}
					r, in := newRecorder(t, raw, log.String()), bufio.NewReader(c)
					for awaitRequest(in) {
						answer := r.record(application, honest)
						if apart {
							_, _ = raw.Write(answer)
							answer = nil
						}
						_, _ = raw.Write(append(answer, behind(r)...))
						came <- struct{}{}
					}
				})
				c := client(t, o)
				c.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS13}
				for range 6 {
					if _, body, err := ask(t, c); body != "honest" || err != nil {
						t.Fatalf("%q %v", body, err)
					}
					<-came
				}
				if n := o.opened.Load(); n != 1 {
					t.Errorf("%d connections were opened", n)
				}
			})
		}
	}
}

func TestRecordsAreFollowedHoweverTheyAreCut(t *testing.T) {
	record := func(n int) []byte { return append([]byte{23, 3, 3, byte(n >> 8), byte(n)}, make([]byte, n)...) }
	all := bytes.Join([][]byte{record(0), record(1), record(300), record(16640)}, nil)
	for _, size := range []int{1, 2, 3, 5, 7, 300, len(all)} {
		var r Records
		for at := 0; at < len(all); at += size {
			r.Pass(all[at:min(at+size, len(all))])
			end := map[int]bool{5: true, 11: true, 316: true, len(all): true}[min(at+size, len(all))]
			if r.Whole() != end {
				t.Errorf("pieces of %d: after %d bytes whole is %v", size, at+size, r.Whole())
			}
		}
	}
}
