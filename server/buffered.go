package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/bytedance/sonic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// completeAnswer is the size in bytes up to which a successful answer is held and sent in one piece.
const completeAnswer = 64 << 10

// isEventStream reports whether a reply is a stream.
func isEventStream(reply *router.Reply) bool {
	media, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";")
	return reply.Status < 300 && strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// passBuffered passes on a complete answer of any status: it is read, recorded, and only then sent. A successful one
// that is too long for that is passed on as it arrives.
func (x *exchange) passBuffered(reply *router.Reply) error {
	most := x.server.opts.AnswerBytes
	if reply.Status < http.StatusMultipleChoices {
		most = min(most, completeAnswer)
	}
	body, ended, err := x.readUpTo(reply, nil, most)
	if err != nil {
		if x.clientGone() {
			_, _ = x.recording.capture.Write(body) // what had arrived
		}
		return err
	}
	if !ended {
		if most == x.server.opts.AnswerBytes {
			return x.tooLong()
		}
		return x.passLong(reply, body)
	}
	return x.passRead(reply, body)
}

// passRead passes on a complete answer that has been read.
func (x *exchange) passRead(reply *router.Reply, body []byte) error {
	if reply.Status >= http.StatusMultipleChoices {
		x.request.redactor.MaskKnown(body)
	}
	if err := x.readAnswer(reply, body); err != nil {
		return err
	}
	x.answerHeader(reply)
	x.answer.out.SetContentType(jsonType(reply.Header))
	return x.sendBuffered(reply.Status, body, x.recording.outcomeOf(reply.Status))
}

// readAnswer records what an answer says about itself.
func (x *exchange) readAnswer(reply *router.Reply, body []byte) error {
	if reply.Status >= http.StatusBadRequest {
		if !sonic.Valid(body) {
			return x.route.notJSON(reply, body)
		}
		x.recording.noteFirstByte()
		x.recordError(reply.Status, body)
		return nil
	}
	seen, sound := crossing.Observe(x.route.format, body, x.reasoningMemory(), !x.recording.off)
	if !sound && !sonic.Valid(body) {
		return x.route.notJSON(reply, body)
	}
	x.recording.noteFirstByte()
	x.recordSeen(&seen)
	return nil
}

// notJSON returns the error for a body that no provider sends: the page of a proxy in between, or a truncated answer.
// Every format's answers are JSON, including errors.
func (r *route) notJSON(reply *router.Reply, body []byte) error {
	if reply.Status >= http.StatusBadRequest {
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			body = nil // a page is no use in a line of text
		}
		return r.fromProvider(crossing.ProviderCodec(r.format).DecodeError(reply.Status, reply.RetryAfter, body))
	}
	return r.fromProvider(codec.Errorf(codec.KindUpstream, "%s answered with something that is not JSON (HTTP %d, %s).",
		r.placement.Provider.Name(), reply.Status, edge.Printable(reply.Header.Get("Content-Type"))))
}

// readComplete reads an answer to its end.
func (x *exchange) readComplete(reply *router.Reply) ([]byte, error) {
	return x.readCompleteInto(nil, reply)
}

// readCompleteInto is readComplete into the memory of a buffer, as far as it fits.
func (x *exchange) readCompleteInto(buffer []byte, reply *router.Reply) ([]byte, error) {
	body, ended, err := x.readUpTo(reply, buffer, x.server.opts.AnswerBytes)
	if err == nil && !ended {
		err = x.tooLong()
	}
	return body, err
}

func (x *exchange) tooLong() *codec.Error {
	return x.route.fromProvider(codec.Errorf(codec.KindUpstream, "%s answered with more than %d bytes.", x.route.placement.Provider.Name(), x.server.opts.AnswerBytes))
}

// readUpTo reads an answer to its end, or until it has more than most bytes; with an error it returns what had arrived.
// It reserves memory as the answer grows, and uses the memory of buffer if that suffices.
func (x *exchange) readUpTo(reply *router.Reply, buffer []byte, most int64) (body []byte, ended bool, err error) {
	room := answerRoom(reply.Body.Length())
	if err := x.hold(room); err != nil {
		return nil, false, err
	}
	if int64(cap(buffer)) >= room {
		body = buffer[:0:room]
	} else {
		body = make([]byte, 0, room)
	}
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

// grow doubles the room of an answer whose expected length is length bytes, -1 if unknown.
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
	x.releaseHeld(before)
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

func (r *recording) outcomeOf(status int) record.Outcome {
	if status >= 400 || r.closing.Error != nil {
		return record.OutcomeUpstreamError
	}
	return record.OutcomeComplete
}

// sendBuffered records the answer and sends it to the client.
func (x *exchange) sendBuffered(status int, body []byte, outcome record.Outcome) error {
	if x.ctx.Err() != nil {
		outcome = outcomeOf(x.ctx, nil, true)
	}
	x.recording.closing.Status = status
	x.recording.closing.ContentType = x.answer.out.ContentType()
	if _, err := x.recording.capture.Write(body); err != nil {
		return err
	}
	if err := x.commit(outcome); err != nil {
		return err
	}
	x.sessionHeader()
	x.answer.out.SetStatus(status)
	x.answer.out.SetBody(body)
	return nil
}

// passBuffer is the read size for a long answer.
const passBuffer = 64 << 10

// mostBehind is how many bytes of white space may follow an answer.
const mostBehind = 4 << 10

// passLong passes on a complete answer that is too long to hold, in the provider's own format, while it is recorded.
// front is its part that has been read. The last byte of its JSON is held back until the answer is on record; an answer
// that breaks off is visibly cut.
//
// Its error means that nothing has been sent and the client can still be answered with a status.
func (x *exchange) passLong(reply *router.Reply, front []byte) error {
	if !scan.IsObject(front) {
		return x.route.notJSON(reply, front)
	}
	if err := x.hold(passBuffer); err != nil {
		return err
	}
	if err := x.recording.capture.Recorded(x.ctx); err != nil {
		return err
	}
	x.recording.noteFirstByte()
	x.answerHeader(reply)
	x.answer.out.SetContentType(jsonType(reply.Header))
	x.answer.out.SetStatus(reply.Status)
	x.recording.closing.Status = reply.Status
	x.recording.closing.ContentType = x.answer.out.ContentType()
	writer := x.answer.out.Stream()
	x.answer.begun = true
	if err := x.passOn(reply, writer, front); err != nil {
		writer.Abort()
		x.breakOff(err)
	}
	return nil
}

// passOn relays the answer: a piece is read once the client has taken the one before.
func (x *exchange) passOn(reply *router.Reply, writer *edge.Stream, piece []byte) error {
	outline := crossing.NewOutline(x.route.format)
	var buffer, last []byte
	for ended := false; ; {
		before := outline.Write(piece)
		last = append(last, piece[before:]...)
		if x.answer.sent += int64(before); x.answer.sent+int64(len(last)) > x.server.opts.AnswerBytes {
			return x.tooLong()
		}
		if outline.Broken() || len(last) > mostBehind {
			return x.route.fromProvider(codec.Errorf(codec.KindUpstream, "%s answered with something that is not JSON.", x.route.placement.Provider.Name()))
		}
		if _, err := x.recording.capture.Write(piece); err != nil {
			return err
		}
		if before > 0 {
			if err := send(writer, piece[:before]); err != nil {
				return err
			}
		}
		if ended {
			break
		}
		if buffer == nil {
			buffer = make([]byte, passBuffer)
			x.releaseHeld(x.answer.held - passBuffer) // front has been sent
		}
		n, err := reply.Body.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		piece, ended = buffer[:n], err != nil
	}
	seen, complete := outline.Seen()
	if !complete {
		return x.route.fromProvider(codec.Errorf(codec.KindUpstream, "%s ended its answer in the middle.", x.route.placement.Provider.Name()))
	}
	x.recordSeen(&seen)
	if err := x.commit(x.recording.outcomeOf(http.StatusOK)); err != nil {
		return err
	}
	x.answer.sent += int64(len(last))
	return send(writer, last)
}

func send(w *edge.Stream, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return err
	}
	return w.Flush()
}

// breakOff records an answer that could not be passed on completely.
func (x *exchange) breakOff(err error) {
	e := x.orDraining(asError(err))
	x.recording.written = x.answer.sent / bytesPerToken
	outcome := outcomeOf(x.ctx, e, true)
	if x.clientGone() || !isForClient(err) {
		outcome = record.OutcomeClientClosed
	} else {
		x.recording.closing.Error = e
	}
	x.tryCommit(outcome)
}
