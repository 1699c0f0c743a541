package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/bytedance/sonic"

	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// completeAnswer is the size in bytes up to which a successful answer is held and sent in one piece.
const completeAnswer = 64 << 10

// pass passes on a complete answer of any status: it is read, recorded, and only then sent. A successful one that is too
// long for that is passed on as it arrives.
func (r providerReply) pass() error {
	x, most := r.x, r.x.proxy.opts.AnswerBytes
	if r.Status < http.StatusMultipleChoices {
		most = min(most, completeAnswer)
	}
	body, ended, err := r.upTo(most, nil)
	if err != nil {
		if clientGone(x.ctx) {
			_, _ = x.recording.capture.Write(body) // what had arrived
		}
		return err
	}
	if !ended {
		if most == x.proxy.opts.AnswerBytes {
			return r.tooLong()
		}
		return r.passLong(body)
	}
	return r.passRead(body)
}

// passRead passes on a complete answer that has been read.
func (r providerReply) passRead(body []byte) error {
	x := r.x
	if r.Status >= http.StatusMultipleChoices {
		x.request.redactor.MaskKnown(body)
	}
	if err := r.observe(body); err != nil {
		return err
	}
	r.header()
	x.answer.out.SetContentType(jsonType(r.Header))
	return x.sendBuffered(r.Status, body, x.recording.outcomeOf(r.Status))
}

// observe records what an answer says about itself.
func (r providerReply) observe(body []byte) error {
	x := r.x
	if r.Status >= http.StatusBadRequest {
		if !sonic.Valid(body) {
			return r.notJSON(body)
		}
		x.recording.noteFirstByte()
		x.recording.closing.Error = x.route.decodeError(r.Status, 0, body)
		return nil
	}
	seen, sound := crossing.Observe(x.route.format, body, x.route.reasoningMemory(x.router, x.proxy.ledger, x.request.caller.Account), !x.recording.off)
	if !sound && !sonic.Valid(body) {
		return r.notJSON(body)
	}
	x.recording.noteFirstByte()
	x.recordSeen(&seen)
	return nil
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
	x.recording.nameSession(x.answer.out)
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
func (r providerReply) passLong(front []byte) error {
	x := r.x
	if !scan.IsObject(front) {
		return r.notJSON(front)
	}
	if err := x.answer.hold(passBuffer); err != nil {
		return err
	}
	if err := x.recording.capture.Recorded(x.ctx); err != nil {
		return err
	}
	x.recording.noteFirstByte()
	r.header()
	x.answer.out.SetContentType(jsonType(r.Header))
	x.answer.out.SetStatus(r.Status)
	x.recording.closing.Status = r.Status
	x.recording.closing.ContentType = x.answer.out.ContentType()
	writer := x.answer.out.Stream()
	x.answer.begun = true
	if err := r.passPieces(writer, front); err != nil {
		writer.Abort()
		x.breakOff(err)
	}
	return nil
}

// passPieces passes the answer on: a piece is read once the client has taken the one before.
func (r providerReply) passPieces(writer *edge.Stream, piece []byte) error {
	x := r.x
	outline := crossing.NewOutline(x.route.format)
	var buffer, last []byte
	for ended := false; ; {
		before := outline.Write(piece)
		last = append(last, piece[before:]...)
		if x.answer.sent += int64(before); x.answer.sent+int64(len(last)) > x.proxy.opts.AnswerBytes {
			return r.tooLong()
		}
		if outline.Broken() || len(last) > mostBehind {
			return x.route.providerError("answered with something that is not JSON")
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
			x.answer.release(x.answer.held - passBuffer) // front has been sent
		}
		n, err := r.Body.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		piece, ended = buffer[:n], err != nil
	}
	seen, complete := outline.Seen()
	if !complete {
		return x.route.providerError("ended its answer in the middle")
	}
	x.recordSeen(&seen)
	if err := x.commit(x.recording.outcomeOf(http.StatusOK)); err != nil {
		return err
	}
	x.answer.sent += int64(len(last))
	return send(writer, last)
}

// breakOff records an answer that could not be passed on completely.
func (x *exchange) breakOff(err error) {
	e := orDraining(x.ctx, asError(err))
	x.recording.written = x.answer.sent / bytesPerToken
	outcome := outcomeOf(x.ctx, e, true)
	if clientGone(x.ctx) || !isForClient(err) {
		outcome = record.OutcomeClientClosed
	} else {
		x.recording.closing.Error = e
	}
	x.tryCommit(outcome)
}
