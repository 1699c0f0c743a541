package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
)

// providerReply is what a provider has answered to a call of an exchange. Its body is read within the memory for answers.
type providerReply struct {
	*router.Reply
	x *exchange
}

// isStream reports whether the reply is a stream of events.
func (r providerReply) isStream() bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return r.Status < 300 && strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

func (r providerReply) close() { _ = r.Body.Close() }

// whole reads the body to its end.
func (r providerReply) whole() ([]byte, error) { return r.wholeInto(nil) }

// wholeInto is whole into the memory of a buffer, as far as it fits.
func (r providerReply) wholeInto(buffer []byte) ([]byte, error) {
	body, ended, err := r.upTo(r.x.proxy.opts.AnswerBytes, buffer)
	if err == nil && !ended {
		err = r.tooLong()
	}
	return body, err
}

// upTo reads the body to its end, or until it has more than most bytes; with an error it returns what had arrived. It
// reserves memory as the body grows, and uses the memory of buffer if that suffices.
func (r providerReply) upTo(most int64, buffer []byte) (body []byte, ended bool, err error) {
	room := answerRoom(r.Body.Length())
	if err := r.x.answer.hold(room); err != nil {
		return nil, false, err
	}
	if int64(cap(buffer)) >= room {
		body = buffer[:0:room]
	} else {
		body = make([]byte, 0, room)
	}
	for int64(len(body)) <= most {
		if len(body) == cap(body) {
			if body, err = r.grow(body); err != nil {
				return body, false, err
			}
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, int64(len(body)) <= most, nil
		}
		if err != nil {
			return body, false, err
		}
	}
	return body, false, nil
}

// grow doubles the room of a body.
func (r providerReply) grow(body []byte) ([]byte, error) {
	before := int64(cap(body))
	room := 2 * before
	if length := r.Body.Length(); length >= before { // -1 if unknown
		room = min(room, length+1)
	}
	if err := r.x.answer.hold(room); err != nil {
		return body, err
	}
	body = append(make([]byte, 0, room), body...)
	r.x.answer.release(before)
	return body, nil
}

// answerRoom returns the initial room for an answer of length bytes, -1 if unknown. It is bounded, because the provider
// may state any length; long answers grow as they arrive.
func answerRoom(length int64) int64 {
	const least, most = 4 << 10, 256 << 10
	if length < 0 {
		return least
	}
	return min(length+1, most) // one more, so that reading the end needs no growth
}

func (r providerReply) tooLong() *codec.Error {
	return r.x.route.providerError("answered with more than %d bytes", r.x.proxy.opts.AnswerBytes)
}

// failure reads the error with which a provider answered.
func (r providerReply) failure() error {
	body, err := r.whole()
	if err != nil {
		return err
	}
	return r.x.route.decodeError(r.Status, r.RetryAfter, body)
}

// notJSON returns the error for a body that no provider sends: the page of a proxy in between, or a truncated answer.
// Every format's answers are JSON, including errors.
func (r providerReply) notJSON(body []byte) *codec.Error {
	if r.Status < http.StatusBadRequest {
		return r.x.route.providerError("answered with something that is not JSON (HTTP %d, %s)", r.Status, edge.Printable(r.Header.Get("Content-Type")))
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		body = nil // a page is no use in a line of text
	}
	return r.x.route.decodeError(r.Status, r.RetryAfter, body)
}

// inForm returns the error of a body that is not JSON, in the surface's form.
func (r providerReply) inForm(body []byte) []byte {
	request := &r.x.request
	return crossing.ClientCodec(request.shape()).AppendError(nil, request.discreet(r.notJSON(body)), &codec.AnswerOptions{ID: r.x.recording.id()})
}
