package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The limits of the harness that is attacked. A body may have a mebibyte, all bodies together eight.
const (
	hostileBody     = 1 << 20
	hostileHead     = 8 << 10
	hostileInFlight = 8 << 20
)

// hostileTimeout is how long a request may take to arrive. What does not come to its end within it because the machine is
// slow is tried again with more.
const hostileTimeout = time.Second

// hostileHeap is what the proxy and its attackers may hold together beyond what a harness needs, in bytes. Most of it
// is read between two looks of the sweeper, with several floods at a time.
const hostileHeap = 192 << 20

// hostileSweep is the time between two looks. Where the machine lets others come later than that the sweeper does, too, and
// floods bring in as much more.
const hostileSweep = 50 * time.Millisecond

// hostile is a request that no client in its senses sends, with what becomes of it.
type hostile struct {
	name string
	send string            // as it stands on the wire
	act  func(*hostileSay) // instead of send, what is sent in time, or in masses
	want string            // statuses that are right, with blanks between them; "closed" for no answer
	open bool              // the connection is good for another request
}

// hostileSay is the client's side of a connection.
type hostileSay struct {
	net.Conn
	timeout time.Duration // of the server
}

func (c *hostileSay) say(text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// drip sends byte by byte until it is stopped.
func (c *hostileSay) drip(text string) {
	for i := range len(text) {
		if !c.say(text[i : i+1]) {
			return
		}
		time.Sleep(c.timeout / 10)
	}
}

// push sends a text over and over, 600 MB at most.
func (c *hostileSay) push(text string) {
	for sent := 0; sent < 600<<20 && c.say(text); sent += len(text) {
	}
}

// hostiles is the table. {head} stands for a head up to its last line, with a good key, {body} for a body that is good
// as it is, {length} for its Content-Length.
func hostiles() []hostile {
	const post = "POST /v1/messages HTTP/1.1\r\n"
	good := messages.body(`text "hi"`, false)
	flood := strings.Repeat("x", 64<<10)
	chunked := "{head}Transfer-Encoding: chunked\r\n\r\n"
	ones := ""
	for i := range len(good) {
		ones += "1\r\n" + good[i:i+1] + "\r\n"
	}
	compressed := func(encoding, body string) string {
		return fmt.Sprintf("{head}Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", encoding, len(body), body)
	}
	sized := func(body string) string { return fmt.Sprintf("{head}Content-Length: %d\r\n\r\n%s", len(body), body) }
	target := func(to string) string { return "POST " + to + " HTTP/1.1\r\n{fields}{length}\r\n{body}" }

	return []hostile{
		// Framing that two readers could see differently.
		{name: "two lengths", send: "{head}{length}Content-Length: 5\r\n\r\n{body}", want: "400"},
		{name: "the same length twice", send: "{head}{length}{length}\r\n{body}", want: "400"},
		{name: "a list of lengths", send: "{head}Content-Length: 5, 5\r\n\r\n{body}", want: "400"},
		{name: "length and chunks", send: "{head}{length}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "chunks and length", send: "{head}Transfer-Encoding: chunked\r\n{length}\r\n0\r\n\r\n", want: "400"},
		{name: "chunked twice", send: "{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "xchunked", send: "{head}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "gzip, chunked", send: "{head}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "identity and length", send: "{head}Transfer-Encoding: identity\r\n{length}\r\n{body}", want: "400"},
		{name: "chunks in HTTP/1.0", send: strings.Replace(chunked, "{head}", "{head/1.0}", 1) + "0\r\n\r\n", want: "400"},
		{name: "chunked with a vertical tab", send: "{head}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "signed length", send: "{head}Content-Length: +5\r\n\r\n{body}", want: "400"},
		{name: "negative length", send: "{head}Content-Length: -1\r\n\r\n{body}", want: "400"},
		{name: "hexadecimal length", send: "{head}Content-Length: 0x10\r\n\r\n{body}", want: "400"},
		{name: "length with an exponent", send: "{head}Content-Length: 1e2\r\n\r\n{body}", want: "400"},
		{name: "length with a blank inside", send: "{head}Content-Length: 1 1\r\n\r\n{body}", want: "400"},
		{name: "length beyond 64 bits", send: "{head}Content-Length: 99999999999999999999\r\n\r\n{body}", want: "400"},
		{name: "length of all 63 bits", send: "{head}Content-Length: 9223372036854775807\r\n\r\n{body}", want: "400 413"},
		{name: "blank before the colon", send: "{head}Content-Length : 5\r\n\r\n{body}", want: "400"},
		{name: "blank before the colon of chunks", send: "{head}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "folded line", send: "{head}X-Folded: a\r\n b\r\n{length}\r\n{body}", want: "400"},
		{name: "last line folded into a blank", send: "{head}{length} \r\n\r\n{body}", want: "400"},
		{name: "folded chunked", send: "{head}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "bare line feed", send: "{head}X-Bare: a\n{length}\r\n{body}", want: "400"},
		{name: "bare line feeds alone", send: strings.ReplaceAll("{head}", "\r", "") + "X: y\n\n", want: "400"},
		{name: "bare carriage return", send: "{head}X-Bare: a\rX-Other: b\r\n{length}\r\n{body}", want: "400"},
		{name: "NUL in a value", send: "{head}X-Nul: a\x00b\r\n{length}\r\n{body}", want: "400"},
		{name: "NUL in a name", send: "{head}X-\x00: a\r\n{length}\r\n{body}", want: "400"},
		{name: "line without a colon", send: "{head}nonsense\r\n{length}\r\n{body}", want: "400"},
		{name: "name of nothing", send: "{head}: a\r\n{length}\r\n{body}", want: "400"},
		{name: "name with a blank", send: "{head}X Y: a\r\n{length}\r\n{body}", want: "400"},
		{name: "name with brackets", send: "{head}X(Y): a\r\n{length}\r\n{body}", want: "400"},
		{name: "two hosts", send: "{head}Host: other\r\n{length}\r\n{body}", want: "400"},
		{name: "no host", send: post + "Content-Length: 0\r\n\r\n", want: "400"},

		{name: "two keys", send: "{head}Authorization: Bearer other\r\n{length}\r\n{body}", want: "400"},
		{name: "two keys in the header of our own", send: "{head}X-Service-API-Key: a\r\nX-Service-API-Key: b\r\n{length}\r\n{body}", want: "400"},
		{name: "chunked behind a no-break space", send: "{head}Transfer-Encoding: \xc2\xa0chunked\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "chunked before a next line", send: "{head}Transfer-Encoding: chunked\xc2\x85\r\n\r\n0\r\n\r\n", want: "400"},
		{name: "chunked behind a tab", send: "{head}Transfer-Encoding:\tchunked \r\n\r\n" + ones + "0\r\n\r\n", want: "200", open: true},

		// What is wrong with a head is said before there is a body.
		{name: "two lengths and no body yet", send: "{head}{length}Content-Length: 5\r\n\r\n", want: "400"},
		{name: "length, chunks and no body yet", send: "{head}{length}Transfer-Encoding: chunked\r\n\r\n", want: "400"},
		{name: "length, chunks and a short body", send: "{head}{length}Transfer-Encoding: chunked\r\n\r\n{", want: "400"},
		{name: "two hosts and no body yet", send: "{head}Host: other\r\n{length}\r\n", want: "400"},
		{name: "folded line and no body yet", send: "{head}X-Folded: a\r\n b\r\n{length}\r\n", want: "400"},
		{name: "two keys and no body yet", send: "{head}Authorization: Bearer other\r\n{length}\r\n", want: "400"},
		{name: "two lengths and an expectation", send: "{head}{length}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", want: "400"},

		// Targets that a front proxy could lead elsewhere.
		{name: "fragment", send: target("/v1/messages#f"), want: "400"},
		{name: "fragment of a query", send: target("/v1/messages?a=b#f"), want: "400"},
		{name: "no slash in front", send: target("v1/messages"), want: "400"},
		{name: "another scheme", send: target("ftp://proxy/v1/messages"), want: "400"},
		{name: "escaped slash", send: target("/v1%2fmessages"), want: "400"},
		{name: "escaped slash in capitals", send: target("/v1%2Fmessages"), want: "400"},
		{name: "escaped backslash", send: target("/v1%5cmessages"), want: "400"},
		{name: "backslash", send: target("/v1\\messages"), want: "400"},
		{name: "escaped slash in a query", send: target("/v1/messages?a=b%2fc"), want: "200", open: true},
		{name: "dots", send: target("/x/../v1/./messages"), want: "200", open: true},
		{name: "two slashes", send: target("/v1//messages"), want: "200", open: true},
		{name: "escaped letter", send: target("/v1/%6dessages"), want: "200", open: true},
		{name: "absolute form of this host", send: target("http://proxy/v1/messages"), want: "200", open: true},

		// Trailers.
		{name: "a trailer", send: chunked + ones + "0\r\nX: y\r\n\r\n", want: "200", open: true},
		{name: "trailers that end in a line feed", send: chunked + ones + "0\r\n\n", want: "400"},
		{name: "trailer with a line feed alone", send: chunked + ones + "0\r\nX: y\n\r\n", want: "400"},
		{name: "trailer of no name", send: chunked + ones + "0\r\n: v\r\n\r\n", want: "400"},
		{name: "NUL in a trailer", send: chunked + ones + "0\r\nX: a\x00b\r\n\r\n", want: "400"},
		{name: "folded trailer", send: chunked + ones + "0\r\nX: a\r\n b\r\n\r\n", want: "400"},
		{name: "trailer without a colon", send: chunked + ones + "0\r\nnonsense\r\n\r\n", want: "400"},
		{name: "trailer whose name has a blank", send: chunked + ones + "0\r\nX Y: a\r\n\r\n", want: "400"},
		{name: "trailer whose name begins with a zero", send: chunked + ones + "0\r\n0x: a\r\n\r\n", want: "400"},
		{name: "two last chunks", send: chunked + ones + "0\r\n0\r\n\r\n", want: "400"},
		{name: "forbidden trailer before another", send: chunked + ones + "0\r\nContent-Length: 5\r\nX: y\r\n\r\n", want: "400"},

		// Chunks.
		{name: "chunk size beyond 64 bits", send: chunked + "FFFFFFFFFFFFFFFFF\r\n", want: "400 413"},
		{name: "chunk size of all 63 bits", send: chunked + "7FFFFFFFFFFFFFFF\r\n", want: "400 413"},
		{name: "negative chunk size", send: chunked + "-1\r\nx\r\n0\r\n\r\n", want: "400"},
		{name: "chunk size in words", send: chunked + "five\r\n", want: "400"},
		{name: "chunk extension", send: chunked + "5;a=b\r\n", want: "400"},
		{name: "flood of a chunk extension", act: func(c *hostileSay) { c.say(chunked + "5;"); c.push(flood) }, want: "400 closed"},
		{name: "flood of zeros in a chunk size", act: func(c *hostileSay) { c.say(chunked); c.push(strings.Repeat("0", 64<<10)) }, want: "400 closed"},
		{name: "flood of blanks behind a chunk size", act: func(c *hostileSay) { c.say(chunked + "5"); c.push(strings.Repeat(" ", 64<<10)) }, want: "400 408 closed"},
		{name: "chunk without its end", send: chunked + "5\r\nhelloworld\r\n0\r\n\r\n", want: "400"},
		{name: "chunks with line feeds alone", send: chunked + "5\nhello\n0\n\n", want: "400"},
		{name: "chunk announced and never sent", send: chunked + "FFFFF\r\n", want: "408 closed"},
		{name: "chunks of one byte", send: chunked + ones + "0\r\n\r\n", want: "200", open: true},
		{name: "chunks over the limit", act: func(c *hostileSay) {
			c.say(chunked)
			c.push("FFFF\r\n" + flood[:0xFFFF] + "\r\n")
		}, want: "413 closed"},
		{name: "forbidden trailer", send: chunked + "0\r\nContent-Length: 5\r\n\r\n", want: "400"},
		{name: "flood of trailers", act: func(c *hostileSay) { c.say(chunked + "0\r\n"); c.push(strings.Repeat("X-Trailer: x\r\n", 4<<10)) }, want: "400 431 closed"},
		{name: "trailer without an end", act: func(c *hostileSay) { c.say(chunked + "0\r\nX: "); c.push(flood) }, want: "400 431 closed"},

		// Request lines and methods.
		{name: "HTTP/0.9", send: "GET /v1/models\r\n", want: "400"},
		{name: "preface of HTTP/2", send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", want: "505"},
		{name: "HTTP/2 in the line", send: strings.Replace(post, "1.1", "2.0", 1) + "Host: proxy\r\nContent-Length: 0\r\n\r\n", want: "505"},
		{name: "no version", send: "POST /v1/messages\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "400"},
		{name: "another protocol", send: "POST /v1/messages HTTX/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "400"},
		{name: "two blanks in the line", send: "POST  /v1/messages HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "400"},
		{name: "blank in the target", send: "POST /v1/mess ages HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "400 404"},
		{name: "NUL in the target", send: "POST /v1/mess\x00ages HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "400 404"},
		{name: "greeting of TLS", send: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 500), want: "400 408 closed"},
		{name: "empty line", send: "\r\n\r\n\r\n", want: "400 closed"},
		{name: "nothing but NULs", send: strings.Repeat("\x00", 4<<10), want: "400 408 431 closed"},
		{name: "CONNECT", send: "CONNECT internal:443 HTTP/1.1\r\nHost: internal:443\r\n\r\n", want: "400 404 405"},
		{name: "TRACE", send: "TRACE /v1/messages HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "405", open: true},
		{name: "asterisk", send: "OPTIONS * HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", want: "400 404 405"},
		{name: "upgrade to HTTP/2", send: "{head}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n{length}\r\n{body}", want: "200", open: true},
		{name: "absolute form of another host", send: "{absolute}{length}\r\n{body}", want: "400"},
		{name: "an expectation nobody knows", send: "{head}Expect: miracles\r\n{length}\r\n{body}", want: "417"},
		{name: "expectation with a length over the limit", send: "{head}Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", want: "413"},
		{name: "method of 100 KB", act: func(c *hostileSay) { c.say(strings.Repeat("X", 100<<10) + " / HTTP/1.1\r\n\r\n") }, want: "400 431 closed"},
		{name: "target of 100 KB", act: func(c *hostileSay) { c.say("POST /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\n\r\n") }, want: "400 431 closed"},
		{name: "10,000 headers", act: func(c *hostileSay) { c.say("{head}" + strings.Repeat("X-Many: y\r\n", 10_000) + "\r\n") }, want: "431"},
		{name: "header of a megabyte", act: func(c *hostileSay) { c.say("{head}X-Long: " + strings.Repeat("x", 1<<20) + "\r\n\r\n") }, want: "431"},
		{name: "head without an end", act: func(c *hostileSay) { c.say("{head}X-Long: "); c.push(flood) }, want: "431 closed"},
		{name: "key of 7 KB", send: post + "Host: proxy\r\nAuthorization: Bearer " + strings.Repeat("k", 7<<10) + "\r\nContent-Length: 0\r\n\r\n", want: "401", open: true},
		{name: "key with control characters", send: post + "Host: proxy\r\nAuthorization: Bearer \x01\x7f\r\nContent-Length: 0\r\n\r\n", want: "400 401"},

		// Slow, and gone.
		{name: "silence", send: "", want: "closed"},
		{name: "drip of a request line", act: func(c *hostileSay) { c.drip(post) }, want: "408 closed"},
		{name: "drip of headers", act: func(c *hostileSay) { c.say(post); c.drip(strings.Repeat("X: y\r\n", 100)) }, want: "408 closed"},
		{name: "drip of a body", act: func(c *hostileSay) { c.say("{head}{length}\r\n"); c.drip(good) }, want: "408 closed"},
		{name: "drip of chunks", act: func(c *hostileSay) { c.say(chunked); c.drip(ones) }, want: "408 closed"},
		{name: "half a head", send: post + "Host: pro", want: "408 closed"},
		{name: "half a body", send: "{head}{length}\r\n{", want: "408 closed"},
		{name: "body announced and never sent", send: "{head}Content-Length: 1048576\r\n\r\n", want: "408 closed"},
		{name: "gone behind the head", act: func(c *hostileSay) { c.say("{head}{length}\r\n"); _ = c.Close() }, want: "closed"},
		{name: "gone inside the body", act: func(c *hostileSay) { c.say("{head}{length}\r\n" + good[:9]); _ = c.Close() }, want: "closed"},
		{name: "gone at once", act: func(c *hostileSay) { _ = c.Close() }, want: "closed"},

		// Masses.
		{name: "600 MB that were announced", act: func(c *hostileSay) { c.say("{head}Content-Length: 629145600\r\n\r\n"); c.push(flood) }, want: "413 closed"},
		{name: "600 MB behind a request", act: func(c *hostileSay) { c.say("{head}{slow-length}\r\n{slow-body}"); c.push(flood) }, want: "closed"},
		{name: "600 MB before any line", act: func(c *hostileSay) { c.push(flood) }, want: "400 431 closed"},
		{name: "one byte over the limit", send: "{head}Content-Length: 1048577\r\n\r\n", want: "413"},

		// Bodies.
		{name: "100,000 arrays", send: sized(strings.Repeat("[", 100_000)), want: "400", open: true},
		{name: "100,000 objects", send: sized(strings.Repeat(`{"a":`, 100_000)), want: "400", open: true},
		{name: "100,000 arrays in a good body", send: sized(with(good, `"x":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000))), want: "400", open: true},
		{name: "100,000 members", send: sized("{" + strings.Repeat(`"a":1,`, 100_000) + `"b":1}`), want: "400", open: true},
		{name: "a name of 900 KB", send: sized(`{"` + strings.Repeat("n", 900<<10) + `":1}`), want: "400", open: true},
		{name: "a number of 900 KB", send: sized(`{"model":` + strings.Repeat("9", 900<<10) + `}`), want: "400", open: true},
		{name: "bad UTF-8", send: sized("{\"model\":\"\xff\xfe\"}"), want: "400 404", open: true},
		{name: "byte order mark", send: sized("\xef\xbb\xbf" + good), want: "400", open: true},
		{name: "junk behind the JSON", send: sized(good + "x"), want: "400", open: true},
		{name: "no body", send: "{head}Content-Length: 0\r\n\r\n", want: "400", open: true},
		{name: "neither length nor chunks", send: "{head}\r\n", want: "400", open: true},
		{name: "no JSON", send: sized("nonsense"), want: "400", open: true},
		{name: "a form", send: strings.Replace(sized("a=b"), "{head}", "{form}", 1), want: "415", open: true},
		{name: "gzip bomb", send: compressed("gzip", gzipBomb()), want: "413", open: true},
		{name: "zstd bomb", send: compressed("zstd", zstdBomb()), want: "413", open: true},
		{name: "gzip in gzip", send: compressed("gzip, gzip", gzipped(gzipped(good))), want: "415", open: true},
		{name: "brotli", send: compressed("br", good), want: "415", open: true},
		{name: "deflate that is none", send: compressed("deflate", good), want: "400", open: true},
		{name: "gzip that is none", send: compressed("gzip", good), want: "400", open: true},
		{name: "gzip cut short", send: compressed("gzip", gzipped(good)[:40]), want: "400", open: true},
		{name: "gzip and junk", send: compressed("gzip", gzipped(good)+"junk"), want: "400", open: true},

		// Behind a good request. What comes first is its answer.
		{name: "junk", send: "{head}{length}\r\n{body}junk\r\n\r\n", want: "200 then 400"},
		{name: "half a request", send: "{head}{length}\r\n{body}POST /v1/mess", want: "200 then 408/closed"},
		{name: "a request with two lengths", send: "{head}{length}\r\n{body}{head}{length}{length}\r\n{body}", want: "200 then 400"},
		{name: "three requests at once", send: strings.Repeat("{head}{length}\r\n{body}", 3), want: "200 then 200 then 200", open: true},
	}
}

// fill puts in what a row of the table leaves open.
func (h *harness) fill(text string) string {
	good, slow := messages.body(`text "hi"`, false), messages.body(`delay header=1h`, false)
	fields := "Host: proxy\r\nAuthorization: Bearer " + h.key + "\r\n"
	length := func(body string) string { return "Content-Length: " + strconv.Itoa(len(body)) + "\r\n" }
	head := "POST /v1/messages HTTP/1.1\r\n" + fields
	return strings.NewReplacer(
		"{fields}", fields, "{head}", head, "{head/1.0}", strings.Replace(head, "1.1", "1.0", 1), "{absolute}", strings.Replace(head, " /", " http://elsewhere/", 1),
		"{form}", head+"Content-Type: application/x-www-form-urlencoded\r\n",
		"{length}", length(good), "{body}", good, "{slow-length}", length(slow), "{slow-body}", slow,
	).Replace(text)
}

// filling is a connection that fills in what is written to it.
type filling struct {
	net.Conn
	h *harness
}

func (f filling) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("{")) {
		return f.Conn.Write(p)
	}
	if _, err := io.WriteString(f.Conn, f.h.fill(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// besieged is a harness with limits that attackers can reach.
type besieged struct {
	*harness
	timeout time.Duration
}

func besiege(t *testing.T, on transportPlan, timeout time.Duration) *besieged {
	return &besieged{timeout: timeout, harness: build(t, on, func(p *plan) {
		o := &p.server
		o.BodyBytes, o.HeaderBytes, o.InFlightBytes, o.ReadTimeout = hostileBody, hostileHead, hostileInFlight, timeout
		p.provider.Keep = -1
	})}
}

func TestHostileRequestsAreAnsweredAndHarmNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("many cases, one after the other")
	}
	table := hostiles() // takes seconds to make
	onEveryTransport(t, func(t *testing.T, on transportPlan) { hostileRequests(t, on, table) })
}

func hostileRequests(t *testing.T, on transportPlan, table []hostile) {
	for within := hostileTimeout; len(table) > 0; within *= 4 {
		t.Run("within "+within.String(), func(t *testing.T) { table = besiege(t, on, within).withstands(t, table) })
	}
}

// withstands attacks the harness with the table beside other requests. It gives the rows that were not done when the
// harness's timeout had passed.
func (h *besieged) withstands(t *testing.T, table []hostile) (tooSlow []hostile) {
	runtime.GC()
	before, peak := heapNow(), make(chan heapSeen, 1)
	ctx, over := context.WithCancel(context.Background())
	go func() { peak <- heapPeak(ctx) }()
	legitimate := h.legitimate(ctx)

	tooSlow = h.attackWith(t, table, 8)
	over()
	took, seen := <-legitimate, <-peak
	if grown := seen.most - before; float64(grown) > hostileHeap*max(1, seen.late.Seconds()/hostileSweep.Seconds()) {
		t.Errorf("%d MiB were held, and nobody had to wait for longer than %v", grown>>20, seen.late)
	} else {
		t.Logf("%d MiB were held at most; %d requests of others went through beside it", grown>>20, len(took))
	}
	if len(took) == 0 && len(tooSlow) == 0 {
		t.Error("no legitimate request went through")
	}
	eventually(t, func() error {
		if n := h.provider.Open(); n != 0 {
			return fmt.Errorf("%d requests are still open at the provider", n)
		}
		return nil
	})
	return tooSlow
}

// What comes to a port with TLS and is none.
func TestConnectionsWithoutTLSAreClosed(t *testing.T) {
	h := besiege(t, overTLS(t), hostileTimeout)
	for _, row := range []struct{ name, send, want string }{
		{"plain HTTP", "{head}{length}\r\n{body}", "HTTP/1.0 400 "},
		{"plain HTTP of a browser", "GET / HTTP/1.1\r\nHost: proxy\r\n\r\n", "HTTP/1.0 400 "},
		{"garbage", "\x00\x01\x02\x03\x04\x05\x06\x07", ""},
		{"a record of another version", "\x16\x09\x09\x00\x05hello", "\x15"},
		{"a record over the limit", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16), "\x15"},
		{"a handshake that is none", "\x16\x03\x01\x00\x05\xff\xff\xff\xff\xff", "\x15"},
		{"half a record", "\x16\x03\x01\x02\x00\x01", ""},
		{"an alert", "\x15\x03\x03\x00\x02\x02\x28", ""},
		{"nothing", "", ""},
	} {
		to := h.proxy.Addr()
		conn, err := h.reach(context.Background(), to.Network(), to.String())
		ok(t, err)
		ok(t, conn.SetDeadline(time.Now().Add(timeout)))
		_, err = io.WriteString(conn, h.fill(row.send))
		ok(t, err)
		got, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", row.name)
		}
		if !strings.HasPrefix(string(got), row.want) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: the answer is %q, %v", row.name, got, err)
		}
		_ = conn.Close()
	}
	if a := h.post(chat.path, chat.body(`text "hi"`, false)); a.status != 200 {
		t.Errorf("then a good request: %d", a.status)
	}
}

// attackWith goes through the table with so many attackers at a time. It gives the rows that say nothing: they came to
// another end, but not within the harness's timeout, which may have passed for any request by then.
func (h *besieged) attackWith(t *testing.T, table []hostile, attackers int) (tooSlow []hostile) {
	var mu sync.Mutex
	var rows sync.WaitGroup
	turns := make(chan struct{}, attackers)
	for _, row := range table {
		turns <- struct{}{}
		rows.Go(func() {
			defer func() { <-turns }()
			begun := time.Now()
			err := h.attack(&row)
			switch {
			case err == nil:
			case time.Since(begun) < h.timeout || h.timeout > timeout:
				t.Errorf("%s: %v", row.name, err)
			default:
				mu.Lock()
				defer mu.Unlock()
				tooSlow = append(tooSlow, row)
			}
		})
	}
	rows.Wait()
	return tooSlow
}

func (h *besieged) attack(row *hostile) error {
	conn, err := h.attemptDial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout + h.timeout)); err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		say := &hostileSay{filling{conn, h.harness}, h.timeout}
		if row.act != nil {
			row.act(say)
		} else {
			say.say(row.send)
		}
	}()
	in := bufio.NewReader(conn)
	for i, want := range strings.Split(row.want, " then ") {
		got := "closed"
		response, err := http.ReadResponse(in, nil)
		for err == nil && response.StatusCode == http.StatusContinue {
			response, err = http.ReadResponse(in, nil)
		}
		if err == nil {
			a := read(response)
			got = strconv.Itoa(response.StatusCode)
			if response.StatusCode >= 400 && errorMessage(a.body) == "" {
				return fmt.Errorf("the answer %s says nothing: %q", got, a.body)
			}
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			got = "nothing, and an open connection"
		}
		if !slices.Contains(strings.FieldsFunc(want, func(r rune) bool { return r == ' ' || r == '/' }), got) {
			return fmt.Errorf("answer %d is %s, not %s", i+1, got, want)
		}
		if got == "closed" {
			return nil
		}
	}
	<-sent
	if row.open {
		next, err := askOn(conn, h.raw(messages, messages.body(`text "hi"`, false)))
		if err == nil && next.status != 200 {
			err = fmt.Errorf("%d %s", next.status, next.body)
		}
		if err != nil {
			return fmt.Errorf("the next request on the connection: %w", err)
		}
		return nil
	}
	_ = conn.SetReadDeadline(time.Now().Add(timeout))
	if n, err := io.Copy(io.Discard, in); err != nil && errors.Is(err, os.ErrDeadlineExceeded) || n > 0 {
		return fmt.Errorf("the connection stays open (%d bytes, %w)", n, err)
	}
	return nil
}

// legitimate sends one good request after the other on connections of its own until ctx ends, and gives what each took.
func (h *besieged) legitimate(ctx context.Context) <-chan []time.Duration {
	done := make(chan []time.Duration, 1)
	body := messages.body(`text "hi"`, false)
	go func() {
		var took []time.Duration
		idle := time.Now() // since when the connection may be, which the server closes, too, when its timeout has passed
		for ctx.Err() == nil {
			begun := time.Now()
			a, err := h.attempt(http.MethodPost, messages.path, body, "Authorization", "Bearer "+h.key)
			if err == nil && (a.status != 200 || a.cut != nil) {
				err = errors.Join(fmt.Errorf("%d %s", a.status, a.body), a.cut)
			}
			switch {
			case err == nil:
				took = append(took, time.Since(begun))
			case time.Since(idle) < h.timeout:
				h.t.Errorf("a legitimate request: %v", err)
			}
			idle = begun
		}
		done <- took
	}()
	return done
}

func heapNow() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// heapSeen is the most that the heap held at one of many looks, in bytes, and the longest time between two of them.
type heapSeen struct {
	most int64
	late time.Duration
}

func heapPeak(ctx context.Context) (seen heapSeen) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; {
		now := time.Now()
		seen.most, seen.late, last = max(seen.most, heapNow()), max(seen.late, now.Sub(last)), now
		select {
		case <-ctx.Done():
			return seen
		case <-tick.C:
		}
	}
}
