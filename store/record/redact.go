package record

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

// Redact masks an opening, except for its body. What its fields refer to stays as it is.
func (o *Opening) Redact(r *redact.Redactor) {
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
	for _, text := range []*string{&o.ModelAsked, &o.ModelSent, &o.Project, &o.Target, &o.ContentType} {
		RedactText(r, text, &o.Redacted)
	}
	o.Header = redactHeader(r, o.Header, &o.Redacted)
}

func redactHeader(r *redact.Redactor, header []HeaderField, tally *redact.Tally) []HeaderField {
	masked := slices.Clone(header)
	for i := range masked {
		RedactText(r, &masked[i].Value, tally)
	}
	return masked
}

// RedactAttempts returns masked copies of attempts.
func RedactAttempts(r *redact.Redactor, attempts []Attempt, tally *redact.Tally) []Attempt {
	masked := slices.Clone(attempts)
	for i := range masked {
		RedactText(r, &masked[i].Model, tally)
	}
	return masked
}

// RedactInfo masks the record of an imported exchange.
func RedactInfo(r *redact.Redactor, info *ExchangeInfo, tally *redact.Tally) {
	for _, id := range []*string{&info.ChatKey, &info.ExternalSession, &info.NativeSession, &info.NativeAgent, &info.PreviousResponse} {
		redactID(r, id, tally)
	}
	for _, text := range []*string{
		&info.ModelAsked, &info.ModelSent, &info.ModelServed, &info.Project, &info.Target, &info.Repeats, &info.RequestType, &info.ResponseType, &info.ResponseID, &info.ProviderReqID,
	} {
		RedactText(r, text, tally)
	}
	RedactText(r, &info.Note, tally)
	info.Tags = redactTexts(r, info.Tags, tally)
	info.Header = redactHeader(r, info.Header, tally)
	info.Attempts = RedactAttempts(r, info.Attempts, tally)
	if info.Error != nil {
		e := *info.Error
		for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
			RedactText(r, text, tally)
		}
		info.Error = &e
	}
}

// RedactSession masks the names of a session.
func RedactSession(r *redact.Redactor, session *Session) {
	var tally redact.Tally // a session's record has no list of redactions
	for _, id := range []*string{&session.ChatKey, &session.ExternalSession, &session.NativeSession, &session.Conversation, &session.Agent} {
		redactID(r, id, &tally)
	}
	RedactText(r, &session.Title, &tally)
	RedactText(r, &session.Note, &tally)
	session.Tags = redactTexts(r, session.Tags, &tally)
	session.Models = redactTexts(r, session.Models, &tally)
}

// RedactDescription returns a description with its texts masked.
func RedactDescription(r *redact.Redactor, d Description) Description {
	var tally redact.Tally // records do not list these redactions
	for _, text := range []**string{&d.Title, &d.Note} {
		if *text != nil {
			masked := **text
			RedactText(r, &masked, &tally)
			*text = &masked
		}
	}
	d.Tags = redactTexts(r, d.Tags, &tally)
	return d
}

func redactTexts(r *redact.Redactor, texts []string, tally *redact.Tally) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		RedactText(r, &texts[i], tally)
	}
	return texts
}

// RedactText masks a text.
func RedactText(r *redact.Redactor, text *string, tally *redact.Tally) {
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

// Redactions returns the list of redactions for a record.
func Redactions(request, response redact.Tally) (list []Redaction) {
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

// Tallies returns the counts in a record's list of redactions.
func Tallies(list []Redaction) (request, response redact.Tally) {
	request, response = redact.Tally{}, redact.Tally{}
	for _, r := range list {
		request.Join(redact.Tally{r.Name: r.Request})
		response.Join(redact.Tally{r.Name: r.Response})
	}
	return request, response
}

// RedactDigest masks the texts of a digest again: what was split or escaped in the exchange's bytes is whole and plain
// here.
func RedactDigest(r *redact.Redactor, d *Digest) {
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
