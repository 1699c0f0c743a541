package store

import (
	"bytes"
	"encoding/hex"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Redaction says that credentials of one kind were masked in a record before it was stored.
type Redaction struct {
	Name     string `json:"name"` // of the shape, or of the operator's own pattern
	Request  int    `json:"request,omitempty"`
	Response int    `json:"response,omitempty"`
}

// StreamReader reads one streamed answer.
type StreamReader interface {
	// Read takes the answer from at on, taken apart, and passes over what it has read before. Where at is behind the end
	// of the last whole event, the rest of a long one is not waited for: that is passed over, too. It visits the fragments
	// of texts in the events that are whole: which text each goes on with, where in the answer it lies, and its bytes,
	// which are the body of a JSON string, still escaped. It gives where in the answer the last whole event ends.
	Read(p []byte, at int64, frames *template.Frames, visit func(text int32, start int64, fragment []byte)) (whole int64)
}

// redactOpening masks what an opening says beside its body.
func redactOpening(o *Opening, r *redact.Redactor) *Opening {
	if r == nil {
		return o
	}
	masked := *o
	masked.Redacted = nil
	masked.Redacted.Join(o.Redacted)
	for _, id := range []*string{
		&masked.ChatKey, &masked.ExternalSession, &masked.NativeSession, &masked.NativeAgent, &masked.NativeParent, &masked.PreviousResponse, &masked.Conversation,
	} {
		redactID(r, id, &masked.Redacted)
	}
	for _, text := range []*string{&masked.ModelAsked, &masked.ModelSent, &masked.ContentType} {
		redactText(r, text, &masked.Redacted)
	}
	masked.Header = redactHeader(r, o.Header, &masked.Redacted)
	return &masked
}

func redactHeader(r *redact.Redactor, header []HeaderField, tally *redact.Tally) []HeaderField {
	masked := slices.Clone(header)
	for i := range masked {
		redactText(r, &masked[i].Value, tally)
	}
	return masked
}

func redactAttempts(r *redact.Redactor, attempts []Attempt, tally *redact.Tally) []Attempt {
	masked := slices.Clone(attempts)
	for i := range masked {
		redactText(r, &masked[i].Model, tally)
	}
	return masked
}

// redactInfo masks what the record of an exchange says that was imported.
func redactInfo(r *redact.Redactor, info *ExchangeInfo, tally *redact.Tally) {
	for _, id := range []*string{&info.ChatKey, &info.ExternalSession, &info.NativeSession, &info.NativeAgent, &info.PreviousResponse} {
		redactID(r, id, tally)
	}
	for _, text := range []*string{
		&info.ModelAsked, &info.ModelSent, &info.ModelServed, &info.RequestType, &info.ResponseType, &info.ResponseID, &info.ProviderReqID,
	} {
		redactText(r, text, tally)
	}
	redactText(r, &info.Note, tally)
	info.Tags = redactTexts(r, info.Tags, tally)
	info.Header = redactHeader(r, info.Header, tally)
	info.Attempts = redactAttempts(r, info.Attempts, tally)
	if info.Error != nil {
		e := *info.Error
		for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
			redactText(r, text, tally)
		}
		info.Error = &e
	}
}

// redactSession masks what a session is called by.
func redactSession(r *redact.Redactor, session *Session) {
	var tally redact.Tally // a session's record says nothing of it
	for _, id := range []*string{&session.ChatKey, &session.ExternalSession, &session.NativeSession, &session.Conversation, &session.Agent} {
		redactID(r, id, &tally)
	}
	redactText(r, &session.Title, &tally)
	redactText(r, &session.Note, &tally)
	session.Tags = redactTexts(r, session.Tags, &tally)
	session.Models = redactTexts(r, session.Models, &tally)
}

// redactDescription gives a description with what people wrote masked.
func redactDescription(r *redact.Redactor, d Description) Description {
	var tally redact.Tally // records say nothing of it
	for _, text := range []**string{&d.Title, &d.Note} {
		if *text != nil {
			masked := **text
			redactText(r, &masked, &tally)
			*text = &masked
		}
	}
	d.Tags = redactTexts(r, d.Tags, &tally)
	return d
}

func redactTexts(r *redact.Redactor, texts []string, tally *redact.Tally) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		redactText(r, &texts[i], tally)
	}
	return texts
}

func redactText(r *redact.Redactor, text *string, tally *redact.Tally) {
	masked, matches := r.Text(*text)
	*text = masked
	tally.Add(matches)
}

// redactID replaces an id in which there is a credential by a hash: it goes on telling conversations apart.
func redactID(r *redact.Redactor, id *string, tally *redact.Tally) {
	_, matches := r.Text(*id)
	if len(matches) == 0 {
		return
	}
	sum := blake3.Sum256([]byte(*id))
	*id = "redacted-" + hex.EncodeToString(sum[:16])
	tally.Add(matches)
}

// redactions is what a record says of what was masked.
func redactions(request, response redact.Tally) (list []Redaction) {
	for _, name := range request.Names() {
		list = append(list, Redaction{Name: name, Request: request[name], Response: response[name]})
	}
	for _, name := range response.Names() {
		if request[name] == 0 {
			list = append(list, Redaction{Name: name, Response: response[name]})
		}
	}
	slices.SortFunc(list, func(a, b Redaction) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return list
}

// tallies is what a record says of what was masked, as counts.
func tallies(list []Redaction) (request, response redact.Tally) {
	request, response = redact.Tally{}, redact.Tally{}
	for _, r := range list {
		request.Join(redact.Tally{r.Name: r.Request})
		response.Join(redact.Tally{r.Name: r.Response})
	}
	return request, response
}

// answerRedactor masks an answer on its way to the store. What is still in the capture's buffer can be masked; what has
// been handed to the writer is settled.
type answerRedactor struct {
	store    *core
	redactor *redact.Redactor
	surface  string
	begun    bool
	stream   *redact.Stream // nil: the answer is no event stream
	events   StreamReader
	offset   int64 // where in the answer the buffer begins
	whole    int64 // where in the answer the last event ends that events has read
	found    redact.Tally
}

func (s *core) newAnswerRedactor(surface string, r *redact.Redactor) *answerRedactor {
	if r == nil {
		return nil
	}
	return &answerRedactor{store: s, redactor: r, surface: surface}
}

// settle masks what there is of the answer in the buffer, and gives how many bytes of it need not be seen again: all of
// them with final, else at least one. The rest has to stand at the front of the next buffer. What is settled of an event
// stream comes taken apart, too; that is to be released.
func (a *answerRedactor) settle(buffer []byte, final bool) (settled int, frames *template.Frames) {
	if !a.begun && len(buffer) > 0 {
		a.begin(buffer)
	}
	if a.stream != nil {
		return a.settleStream(buffer, final)
	}
	settled = len(buffer)
	if !final {
		settled = enough(a.redactor.Settled(buffer), buffer)
	}
	a.found.Add(a.redactor.Mask(buffer[:settled]))
	a.offset += int64(settled)
	return settled, nil
}

// enough is how much of a buffer is settled, or all of it where that is less than half: one event, or one credential, as
// long as this is not waited for.
func enough(settled int, buffer []byte) int {
	if settled < len(buffer)/2 {
		return len(buffer)
	}
	return settled
}

// begin tells an event stream by its first byte: every other answer is a JSON object.
func (a *answerRedactor) begin(buffer []byte) {
	a.begun = true
	if first := bytes.TrimLeft(buffer, " \t\r\n"); len(first) > 0 && first[0] != '{' && a.store.opts.Stream != nil {
		a.stream, a.events = a.redactor.NewStream(), a.store.opts.Stream(a.surface)
	}
}

// settleStream is settle for an event stream, where there is also to be masked what is spread over events.
func (a *answerRedactor) settleStream(buffer []byte, final bool) (settled int, frames *template.Frames) {
	frames = template.Cut(buffer)
	masked := false
	settled = a.settleTexts(buffer, frames, final, func(name string, start, end int64, first bool) {
		if start -= a.offset; start < 0 {
			return // of an event that was too long to be waited for
		}
		masked = true
		redact.Mask(buffer, []redact.Match{{Start: int(start), End: int(end - a.offset), Name: name}})
		if first {
			a.found.Join(redact.Tally{name: 1})
		}
	})
	part := buffer[:settled]
	if masked || settled < len(buffer) {
		frames = recut(frames, part)
	}
	if found := a.redactor.MaskFresh(part, frames.Fresh(part)); len(found) > 0 {
		a.found.Add(found)
		frames = recut(frames, part)
	}
	a.offset += int64(settled)
	if final {
		a.stream.Release()
		a.stream = nil
	}
	return settled, frames
}

// recut takes a part apart in which something has changed.
func recut(frames *template.Frames, part []byte) *template.Frames {
	frames.Release()
	return template.Cut(part)
}

// settleTexts follows the texts that events go on with, and gives how much of the buffer is settled.
func (a *answerRedactor) settleTexts(buffer []byte, frames *template.Frames, final bool, mask func(name string, start, end int64, first bool)) int {
	a.whole = a.events.Read(buffer, a.offset, frames, a.stream.Add)
	if final {
		a.stream.Settle(true, a.whole, mask)
		return len(buffer)
	}
	open := a.stream.Settle(false, a.whole, mask)
	if int(open-a.offset) < len(buffer)/2 {
		open = a.stream.Settle(true, a.whole, mask)
	}
	return enough(int(open-a.offset), buffer)
}

// reader is who has read the answer, if that is stored as it was read.
func (a *answerRedactor) reader() StreamReader {
	if a == nil || len(a.found) > 0 {
		return nil
	}
	return a.events
}

// redactClosing masks what a closing says beside the answer.
func (a *answerRedactor) redactClosing(c *Closing) *Closing {
	masked := *c
	for _, text := range []*string{&masked.ModelServed, &masked.ResponseID, &masked.ProviderReqID, &masked.ContentType} {
		redactText(a.redactor, text, &a.found)
	}
	if c.Error != nil {
		e := *c.Error
		for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
			redactText(a.redactor, text, &a.found)
		}
		masked.Error = &e
	}
	masked.Attempts = redactAttempts(a.redactor, c.Attempts, &a.found)
	if c.StandIn != nil {
		s := *c.StandIn
		redactText(a.redactor, &s.ModelSent, &a.found)
		masked.StandIn = &s
	}
	return &masked
}

// redactDigest masks the texts of a digest once more: what was cut or escaped in the exchange's bytes is whole and plain here.
func redactDigest(r *redact.Redactor, d *Digest) {
	if r == nil {
		return
	}
	for _, messages := range [...][]Message{d.Messages, d.Answer} {
		for i := range messages {
			for j := range messages[i].Parts {
				p := &messages[i].Parts[j]
				p.Arguments, _ = r.JSON(p.Arguments)
				for _, text := range [...]*string{&p.Text, &p.Name, &p.CallID, &p.MediaType, &p.URL} {
					*text, _ = r.Text(*text)
				}
			}
		}
	}
}

// redactions joins what was masked in the answer to what the opening's record says.
func (a *answerRedactor) redactions(opening []Redaction) []Redaction {
	request, _ := tallies(opening)
	return redactions(request, a.found)
}
