package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bytedance/sonic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
)

// completeAnswer is the size in bytes up to which a good answer is held to be sent in one piece.
const completeAnswer = 64 << 10

// isEventStream reports whether a reply is to be pumped.
func isEventStream(reply *router.Reply) bool {
	media, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";")
	return reply.Status < 300 && strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// whole hands on a complete answer, whatever its status: read, recorded, and only then sent. A good one that is too long for
// that is passed on as it comes.
func (x *exchange) whole(reply *router.Reply) error {
	most := x.server.opts.AnswerBytes
	if reply.Status < http.StatusMultipleChoices {
		most = min(most, completeAnswer)
	}
	body, ended, err := x.readUpTo(reply, most)
	if err != nil {
		if x.clientGone() {
			_, _ = x.capture.Write(body) // what had arrived
		}
		return err
	}
	if !ended {
		if most == x.server.opts.AnswerBytes {
			return x.tooLong()
		}
		return x.relay(reply, body)
	}
	if reply.Status >= http.StatusMultipleChoices {
		x.redactor.MaskKnown(body)
	}
	if err := x.readAnswer(reply, body); err != nil {
		return err
	}
	x.answerHeader(reply)
	x.out.SetContentType(jsonType(reply.Header))
	return x.sendWhole(reply.Status, body, x.wholeOutcome(reply.Status))
}

// readAnswer notes what an answer says of itself for the record.
func (x *exchange) readAnswer(reply *router.Reply, body []byte) error {
	if reply.Status >= http.StatusBadRequest {
		if !sonic.Valid(body) {
			return x.notJSON(reply, body)
		}
		x.noteFirstByte()
		x.noteRefusal(reply.Status, body)
		return nil
	}
	seen, sound := crossing.Observe(x.format, body, x.reasoningMemory())
	if !sound && !sonic.Valid(body) {
		return x.notJSON(reply, body)
	}
	x.noteFirstByte()
	x.noteSeen(&seen)
	return nil
}

// notJSON is what the client gets instead of what no provider says: the page of a proxy in between, or an answer that
// lost its end. Every format's answers are JSON, errors included.
func (x *exchange) notJSON(reply *router.Reply, body []byte) error {
	if reply.Status >= http.StatusBadRequest {
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			body = nil // a page says nothing in a line of text
		}
		return x.fromProvider(crossing.ProviderCodec(x.format).DecodeError(reply.Status, reply.RetryAfter, body))
	}
	return x.fromProvider(codec.Errorf(codec.KindUpstream, "%s answered with something that is not JSON (HTTP %d, %s).",
		x.placement.Provider.Name(), reply.Status, edge.Printable(reply.Header.Get("Content-Type"))))
}

// readWhole reads an answer to its end.
func (x *exchange) readWhole(reply *router.Reply) ([]byte, error) {
	body, ended, err := x.readUpTo(reply, x.server.opts.AnswerBytes)
	if err == nil && !ended {
		err = x.tooLong()
	}
	return body, err
}

func (x *exchange) tooLong() *codec.Error {
	return x.fromProvider(codec.Errorf(codec.KindUpstream, "%s answered with more than %d bytes.", x.placement.Provider.Name(), x.server.opts.AnswerBytes))
}

// readUpTo reads an answer to its end, or until it has more than most bytes; with an error it gives what had arrived. Its room
// is held as it grows.
func (x *exchange) readUpTo(reply *router.Reply, most int64) (body []byte, ended bool, err error) {
	room := answerRoom(reply.Body.Length())
	if err := x.hold(room); err != nil {
		return nil, false, err
	}
	body = make([]byte, 0, room)
	for int64(len(body)) <= most {
		if len(body) == cap(body) {
			if body, err = x.grow(body, reply.Body.Length()); err != nil {
				return body, false, err
			}
		}
		n, err := reply.Body.Read(body[len(body):cap(body)])
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

// grow doubles the room of an answer that is thought to come to length bytes, -1 where nobody knows.
func (x *exchange) grow(body []byte, length int64) ([]byte, error) {
	before := int64(cap(body))
	room := 2 * before
	if length >= before {
		room = min(room, length+1)
	}
	if err := x.hold(room); err != nil {
		return body, err
	}
	body = append(make([]byte, 0, room), body...)
	x.letGo(before)
	return body, nil
}

// hold takes room for n bytes of an answer from the budget of all answers, until they have been sent.
func (x *exchange) hold(n int64) error {
	if !x.server.answers.Take(n) {
		e := codec.Errorf(codec.KindOverloaded, "The proxy is holding as many bytes of answers as it has room for. Try again in a second.")
		e.RetryAfter = edge.RetrySoon
		return e
	}
	x.held += n
	return nil
}

// letGo gives room back before the answer has been sent.
func (x *exchange) letGo(n int64) {
	x.server.answers.Give(n)
	x.held -= n
}

// answerRoom is how much is set aside for an answer of so many bytes, -1 where nobody knows: the provider may say what it
// wants, and long answers grow as they come.
func answerRoom(length int64) int64 {
	const least, most = 4 << 10, 256 << 10
	if length < 0 {
		return least
	}
	return min(length+1, most) // one more, so that the end is met without growing
}

// noteRefusal keeps a provider's error answer for the record.
func (x *exchange) noteRefusal(status int, body []byte) {
	x.closing.Error = crossing.ProviderCodec(x.format).DecodeError(status, 0, body)
	x.closing.Error.Provider = x.placement.Provider.Name()
}

func (x *exchange) noteFirstByte() { x.closing.FirstByte = time.Now() }

func (x *exchange) noteSeen(seen *crossing.Seen) {
	x.closing.ModelServed = seen.Model
	x.closing.ResponseID = seen.ID
	if x.format != x.surface { // the client has been given an id of ours, and will come back with that
		x.closing.ResponseID = crossing.Traits(x.surface).AnswerID(x.answerOptions())
	}
	x.closing.Usage = seen.Usage
	x.closing.FinishReason = seen.Finish.String()
	if seen.Err != nil {
		x.closing.Error = seen.Err
	}
	if failed := x.closing.Error != nil; seen.Usage.IsZero() && (!failed || seen.Written > 0) {
		x.closing.Usage = codec.Usage{InputUncached: x.estimatedTokens(), Output: seen.Written, Estimated: true}
	}
}

func (x *exchange) wholeOutcome(status int) store.Outcome {
	if status >= 400 || x.closing.Error != nil {
		return store.OutcomeUpstreamError
	}
	return store.OutcomeComplete
}

// sendWhole records the answer and hands it to the client.
func (x *exchange) sendWhole(status int, body []byte, outcome store.Outcome) error {
	if x.ctx.Err() != nil {
		outcome = outcomeOf(x.ctx, nil, true)
	}
	x.closing.Status = status
	x.closing.ContentType = x.out.ContentType()
	if _, err := x.capture.Write(body); err != nil {
		return err
	}
	if err := x.finish(outcome); err != nil {
		return err
	}
	x.sessionHeader()
	x.out.SetStatus(status)
	x.out.SetBody(body)
	return nil
}
