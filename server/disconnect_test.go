package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/store/record"
)

// await returns the request with this number once it has reached the provider.
func (h *harness) await(number int64) provider.Recorded {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := h.provider.Await(ctx, number)
	ok(h.t, err)
	return r
}

func TestAClientThatLeavesStopsTheProvider(t *testing.T) {
	onEveryTransport(t, aClientThatLeavesStopsTheProvider)
}

func aClientThatLeavesStopsTheProvider(t *testing.T, on transportPlan) {
	h := build(t, on)
	number := int64(0)
	for _, s := range surfaces {
		for _, test := range []struct {
			name, script string
			stream       bool
			events       int // that have arrived when the client leaves
			pipelined    string
		}{
			{"before the head of a whole answer", `delay header=1h`, false, 0, ""},
			{"before the head of a stream", `delay header=1h`, true, 0, ""},
			{"before the first event", `delay 1ms first=1h`, true, 0, ""},
			{"in the middle of a stream", `events 9; delay 1h first=1ms; burst 3`, true, 3, ""},
			{"with a request waiting behind", `events 9; delay 1h first=1ms; burst 3`, true, 3, h.raw(s, s.body("", true))},
			{"with half a request waiting behind", `delay header=1h`, true, 0, "POST /v1/messages HTTP/1.1\r\nHo"},
		} {
			if s.name == "embeddings" && test.stream {
				continue
			}
			body := s.body(test.script, test.stream)
			conn := h.dial()
			_, err := io.WriteString(conn, h.raw(s, body)+test.pipelined)
			ok(t, err)
			number++
			up := h.await(number)
			received := ""
			if test.events > 0 {
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				ok(t, err)
				received = readEvents(t, response.Body, test.events)
			}
			left := time.Now()
			ok(t, conn.Close())
			closed(t, "the end of the provider's answer", up.Done())
			took := time.Since(left)
			t.Logf("%s, %s: the provider's connection was closed after %v", s.name, test.name, took.Round(10*time.Microsecond))
			if up.Outcome() != provider.ClientGone {
				t.Errorf("%s, %s: for the provider it ended as %v", s.name, test.name, up.Outcome())
			}
			eventually(t, func() error { // the provider may be asked, and left, before the request is on record
				if n := len(h.records("acme")); n != int(number) {
					return fmt.Errorf("%d exchanges of %d are on record", n, number)
				}
				return nil
			})
			x := h.newest("acme")
			if x.Outcome != record.OutcomeClientClosed || string(x.RawRequest) != body || !strings.HasPrefix(string(x.RawResponse), received) || received == "" && len(x.RawResponse) > 0 {
				t.Errorf("%s, %s: on record as %v with %q, the client had %q", s.name, test.name, x.Outcome, x.RawResponse, received)
			}
			if x.Error != nil {
				t.Errorf("%s, %s: the record names the error %+v, which nobody was told", s.name, test.name, x.Error)
			}
		}
	}
	if n := h.provider.Open(); n != 0 {
		t.Errorf("%d requests are still open at the provider", n)
	}
}

// readEvents reads as many events as are to come.
func readEvents(t testing.TB, from io.Reader, events int) string {
	t.Helper()
	in, text := bufio.NewReader(from), ""
	for range events {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("after %q: %v", text, err)
			}
			text += line
			if strings.TrimRight(line, "\r\n") == "" {
				break
			}
		}
	}
	return text
}

// A whole answer is read before it is sent; a client that leaves meanwhile has received nothing, and what had arrived
// is kept.
func TestACompleteAnswerWithoutAClientIsKeptAsFarAsItArrived(t *testing.T) {
	onEveryTransport(t, aCompleteAnswerWithoutAClientIsKeptAsFarAsItArrived)
}

func aCompleteAnswerWithoutAClientIsKeptAsFarAsItArrived(t *testing.T, on transportPlan) {
	const part = `{"id":"chatcmpl-1","choices":[{"message":{"content":"as far as`
	arrived := make(chan struct{})
	up := newUpstream(t, func(c *upstreamCall) {
		c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n%s", part))
		close(arrived)
		<-c.gone
	})
	h := build(t, on, up.serves)
	conn := h.dial()
	_, err := io.WriteString(conn, h.raw(chat, chat.body("", false)))
	ok(t, err)
	<-arrived
	eventually(t, func() error {
		if len(h.records("acme")) == 0 {
			return fmt.Errorf("nothing is on record")
		}
		return nil
	})
	ok(t, conn.Close())
	x := h.newest("acme")
	if x.Outcome != record.OutcomeClientClosed || !strings.HasPrefix(part, string(x.RawResponse)) {
		t.Errorf("on record as %v with %q", x.Outcome, x.RawResponse)
	}
}

// A client that closes only its sending side counts as gone, as with net/http: it cannot be told from one that left.
func TestAHalfClosedClientCountsAsGone(t *testing.T) {
	onEveryTransport(t, aHalfClosedClientCountsAsGone)
}

func aHalfClosedClientCountsAsGone(t *testing.T, on transportPlan) {
	h := build(t, on)
	conn := h.dial()
	_, err := io.WriteString(conn, h.raw(chat, chat.body(`delay header=1h`, true)))
	ok(t, err)
	up := h.await(1)
	ok(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	closed(t, "the end of the provider's answer", up.Done())
}
