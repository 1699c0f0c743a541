package store

import (
	"bytes"
	"encoding/hex"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Redaction reports that credentials of one kind were masked before a record was stored.
type Redaction struct {
	Name     string `json:"name"` // of the shape, or of the operator's own pattern
	Request  int    `json:"request,omitempty"`
	Response int    `json:"response,omitempty"`
}

// StreamReader reads one streamed answer.
type StreamReader interface {
	// Read takes the answer from offset at on, split into frames, and skips what it has read before. If at is after the
	// end of the last whole event, the rest of a long event is not waited for and is skipped too. It visits the text
	// fragments in whole events: which text each continues, its offset in the answer, and its bytes, which are the body
	// of a JSON string, still escaped. It returns the offset of the end of the last whole event.
	Read(p []byte, at int64, frames *template.Frames, visit func(text int32, start int64, fragment []byte)) (whole int64)
}

// redact masks an opening, except for its body. What its fields refer to stays as it is.
func (o *Opening) redact(r *redact.Redactor) {
	if r == nil {
		return
	}
	body := o.Redacted
	o.Redacted = nil
	o.Redacted.Join(body)
	for _, id := range []*string{
		&o.ChatKey, &o.ExternalSession, &o.NativeSession, &o.NativeAgent, &o.NativeParent, &o.PreviousResponse, &o.Conversation,
	} {
		redactID(r, id, &o.Redacted)
	}
	for _, text := range []*string{&o.ModelAsked, &o.ModelSent, &o.Project, &o.ContentType} {
		redactText(r, text, &o.Redacted)
	}
	o.Header = redactHeader(r, o.Header, &o.Redacted)
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

// redactInfo masks the record of an imported exchange.
func redactInfo(r *redact.Redactor, info *ExchangeInfo, tally *redact.Tally) {
	for _, id := range []*string{&info.ChatKey, &info.ExternalSession, &info.NativeSession, &info.NativeAgent, &info.PreviousResponse} {
		redactID(r, id, tally)
	}
	for _, text := range []*string{
		&info.ModelAsked, &info.ModelSent, &info.ModelServed, &info.Project, &info.RequestType, &info.ResponseType, &info.ResponseID, &info.ProviderReqID,
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

// redactSession masks the names of a session.
func redactSession(r *redact.Redactor, session *Session) {
	var tally redact.Tally // a session's record has no list of redactions
	for _, id := range []*string{&session.ChatKey, &session.ExternalSession, &session.NativeSession, &session.Conversation, &session.Agent} {
		redactID(r, id, &tally)
	}
	redactText(r, &session.Title, &tally)
	redactText(r, &session.Note, &tally)
	session.Tags = redactTexts(r, session.Tags, &tally)
	session.Models = redactTexts(r, session.Models, &tally)
}

// redactDescription returns a description with its texts masked.
func redactDescription(r *redact.Redactor, d Description) Description {
	var tally redact.Tally // records do not list these redactions
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

// redactID replaces an id that contains a credential with a hash, which still distinguishes conversations.
func redactID(r *redact.Redactor, id *string, tally *redact.Tally) {
	_, matches := r.Text(*id)
	if len(matches) == 0 {
		return
	}
	sum := blake3.Sum256([]byte(*id))
	*id = "redacted-" + hex.EncodeToString(sum[:16])
	tally.Add(matches)
}

// redactions returns the list of redactions for a record.
func redactions(request, response redact.Tally) (list []Redaction) {
	if len(request)+len(response) == 0 {
		return nil
	}
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

// tallies returns the counts in a record's list of redactions.
func tallies(list []Redaction) (request, response redact.Tally) {
	request, response = redact.Tally{}, redact.Tally{}
	for _, r := range list {
		request.Join(redact.Tally{r.Name: r.Request})
		response.Join(redact.Tally{r.Name: r.Response})
	}
	return request, response
}

// answerRedactor masks an answer on its way to the store. Bytes in the capture's buffer can still be masked; bytes
// handed to the writer are final.
type answerRedactor struct {
	store    *core
	redactor *redact.Redactor
	surface  string
	begun    bool
	stream   *redact.Stream // nil: the answer is not an event stream
	events   StreamReader
	offset   int64 // offset of the buffer in the answer
	whole    int64 // offset of the end of the last event that events has read
	found    redact.Tally
}

func (s *core) newAnswerRedactor(surface string, r *redact.Redactor) *answerRedactor {
	if r == nil {
		return nil
	}
	return &answerRedactor{store: s, redactor: r, surface: surface}
}

// settle masks the part of the answer in the buffer, and returns how many of its bytes are final: all if final is set,
// else at least one. The rest must be at the front of the next buffer. The final part of an event stream is also
// returned as frames, which the caller releases.
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

// enough returns how many bytes of a buffer are final, or all of it if that is less than half: it does not wait for one
// long event or credential.
func enough(settled int, buffer []byte) int {
	if settled < len(buffer)/2 {
		return len(buffer)
	}
	return settled
}

// begin recognizes an event stream by its first byte: every other answer is a JSON object.
func (a *answerRedactor) begin(buffer []byte) {
	a.begun = true
	if first := bytes.TrimLeft(buffer, " \t\r\n"); len(first) > 0 && first[0] != '{' && a.store.opts.Stream != nil {
		a.stream, a.events = a.redactor.NewStream(), a.store.opts.Stream(a.surface)
	}
}

// settleStream is settle for an event stream, in which credentials spread over events are masked too.
func (a *answerRedactor) settleStream(buffer []byte, final bool) (settled int, frames *template.Frames) {
	frames = template.Cut(buffer)
	masked := false
	settled = a.settleTexts(buffer, frames, final, func(name string, start, end int64, first bool) {
		if start -= a.offset; start < 0 {
			return // of an event that was too long to wait for
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
	if found := a.redactor.MaskFresh(part, frames); len(found) > 0 {
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

// recut splits a changed part again.
func recut(frames *template.Frames, part []byte) *template.Frames {
	frames.Release()
	return template.Cut(part)
}

// settleTexts follows the texts that continue over events, and returns how many bytes of the buffer are final.
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

// reader returns the reader of the answer, if the answer is stored as it was read.
func (a *answerRedactor) reader() StreamReader {
	if a == nil || a.masked() {
		return nil
	}
	return a.events
}

// masked reports whether something was masked.
func (a *answerRedactor) masked() bool { return a != nil && len(a.found) > 0 }

// redactClosing masks a closing, except for the answer. What its fields refer to stays as it is.
func (a *answerRedactor) redactClosing(c *Closing) {
	for _, text := range []*string{&c.ModelServed, &c.ResponseID, &c.ProviderReqID, &c.ContentType} {
		redactText(a.redactor, text, &a.found)
	}
	if c.Error != nil {
		e := *c.Error
		for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
			redactText(a.redactor, text, &a.found)
		}
		c.Error = &e
	}
	c.Attempts = redactAttempts(a.redactor, c.Attempts, &a.found)
	if c.StandIn != nil {
		s := *c.StandIn
		redactText(a.redactor, &s.ModelSent, &a.found)
		c.StandIn = &s
	}
}

// redactDigest masks the texts of a digest again: what was split or escaped in the exchange's bytes is whole and plain
// here.
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

// redactions adds what was masked in the answer to the opening's list.
func (a *answerRedactor) redactions(opening []Redaction) []Redaction {
	if len(a.found) == 0 {
		return opening
	}
	request, _ := tallies(opening)
	return redactions(request, a.found)
}
