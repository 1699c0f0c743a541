package server

import (
	"net/http"

	"github.com/bytedance/sonic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

func (x *exchange) countTokens() error {
	if err := x.arrive(); err != nil {
		return err
	}
	if err := x.enter(); err != nil {
		return err
	}
	if !x.route.isAuthorOf(x.request.surface) {
		return x.estimateTokens()
	}
	return x.passAuxiliary(router.CountTokens)
}

// passAuxiliary passes a request on that generates no answer, and its answer.
func (x *exchange) passAuxiliary(operation router.Operation) error {
	request, err := x.spliced()
	if err != nil {
		return err
	}
	reply, err := x.call(operation, request)
	if err != nil {
		return err
	}
	defer reply.close()
	body, err := reply.whole()
	if err != nil {
		return err
	}
	x.recording.noteFirstByte()
	if reply.Status >= http.StatusMultipleChoices {
		x.request.redactor.MaskKnown(body)
	}
	contentType := jsonType(reply.Header)
	if !sonic.Valid(body) {
		if reply.Status < http.StatusBadRequest {
			return reply.notJSON(body)
		}
		// The status stays: clients that took it for a success would not shorten their conversation.
		body = reply.inForm(body)
		contentType = "application/json"
	}
	if reply.Status >= http.StatusBadRequest {
		x.recording.closing.Error = x.route.decodeError(reply.Status, 0, body)
	}
	reply.header()
	x.answer.out.SetContentType(contentType)
	return x.sendBuffered(reply.Status, body, x.recording.outcomeOf(reply.Status))
}

// estimateTokens estimates what the model would read: opening text, messages and tools, without the rest of the body.
func (x *exchange) estimateTokens() error {
	envelope := &x.request.envelope
	if envelope.PreviousResponse != "" {
		body, _, err := x.proxy.answersOnRecord(&x.request, x.recording.recalled != nil).resolve(&x.request)
		if err != nil {
			return err
		}
		envelope = new(codec.Envelope)
		if err := envelope.Read(body); err != nil {
			return err
		}
	}
	size := 0
	for _, block := range envelope.Blocks(nil) {
		size += block.End - block.Start
	}
	if size == 0 { // Google's clients may send the whole request as one member
		size = len(x.request.body)
	}
	appendCount := crossing.TokenCount(x.request.surface)
	x.ourHeader()
	x.answer.out.SetContentType("application/json")
	return x.sendBuffered(http.StatusOK, appendCount(nil, int64(size/bytesPerToken+1)), record.OutcomeComplete)
}
