package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
)

// relayBuffer is the size of the pieces in which a long answer is passed on.
const relayBuffer = 64 << 10

// mostBehind is how many bytes, all of them white space, may follow an answer.
const mostBehind = 4 << 10

// relay passes on a complete answer that is too long to be held, in the provider's own format, while it is recorded. front has
// been read of it. The last byte of its JSON waits until the answer is on record; one that breaks off is visibly cut.
//
// Its error means that nothing has been sent and the client can still be answered with a status.
func (x *exchange) relay(reply *router.Reply, front []byte) error {
	if !scan.IsObject(front) {
		return x.notJSON(reply, front)
	}
	if err := x.hold(relayBuffer); err != nil {
		return err
	}
	if err := x.capture.Recorded(x.ctx); err != nil {
		return err
	}
	x.noteFirstByte()
	x.answerHeader(reply)
	x.out.SetContentType(jsonType(reply.Header))
	x.out.SetStatus(reply.Status)
	x.closing.Status = reply.Status
	x.closing.ContentType = x.out.ContentType()
	writer := x.out.Stream()
	x.answered = true
	if err := x.passOn(reply, writer, front); err != nil {
		writer.Abort()
		x.breakOff(err)
	}
	return nil
}

// passOn moves the answer: a piece is read when the client has taken the one before.
func (x *exchange) passOn(reply *router.Reply, writer *edge.Stream, piece []byte) error {
	outline := crossing.NewOutline(x.format)
	var buffer, last []byte
	for ended := false; ; {
		before := outline.Write(piece)
		last = append(last, piece[before:]...)
		if x.sent += int64(before); x.sent+int64(len(last)) > x.server.opts.AnswerBytes {
			return x.tooLong()
		}
		if outline.Broken() || len(last) > mostBehind {
			return x.fromProvider(codec.Errorf(codec.KindUpstream, "%s answered with something that is not JSON.", x.placement.Provider.Name()))
		}
		if _, err := x.capture.Write(piece); err != nil {
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
			buffer = make([]byte, relayBuffer)
			x.letGo(x.held - relayBuffer) // the front has been sent
		}
		n, err := reply.Body.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		piece, ended = buffer[:n], err != nil
	}
	seen, complete := outline.Seen()
	if !complete {
		return x.fromProvider(codec.Errorf(codec.KindUpstream, "%s ended its answer in the middle.", x.placement.Provider.Name()))
	}
	x.noteSeen(&seen)
	if err := x.finish(x.wholeOutcome(http.StatusOK)); err != nil {
		return err
	}
	x.sent += int64(len(last))
	return send(writer, last)
}

func send(w *edge.Stream, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return err
	}
	return w.Flush()
}

// breakOff records an answer that could not be passed on to its end.
func (x *exchange) breakOff(err error) {
	e := x.cutShort(asError(err))
	outcome := outcomeOf(x.ctx, e, true)
	if x.clientGone() || !isForClient(err) {
		outcome = store.OutcomeClientClosed
	} else {
		x.closing.Error = e
	}
	if err := x.finish(outcome); err != nil {
		x.server.log.Error("an exchange could not be put on record", "exchange", x.capture.ID(), "error", err)
	}
}
