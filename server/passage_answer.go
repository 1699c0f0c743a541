package server

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/bytedance/sonic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// answer passes an answer on.
func (p *passage) answer(reply providerReply) error {
	x := p.x
	defer reply.close()
	switch {
	case reply.Status >= http.StatusBadRequest:
		return p.fail(reply)
	case p.shared && p.IsList(x.request.in.Method()) && x.proxy.owned.several():
		return p.sendList(reply)
	case reply.isStream():
		return p.sendLong(reply, nil)
	}
	front, ended, err := reply.upTo(completeAnswer, nil)
	switch {
	case err != nil:
		return err
	case !ended:
		return p.sendLong(reply, front)
	}
	return p.sendWhole(reply, front)
}

// fail passes on a provider's error.
func (p *passage) fail(reply providerReply) error {
	x := p.x
	body, err := reply.whole()
	if err != nil {
		return err
	}
	x.request.redactor.MaskKnown(body)
	if !sonic.Valid(body) {
		body = reply.inForm(body)
	}
	x.recording.noteFirstByte()
	x.recording.closing.Error = x.route.decodeError(reply.Status, 0, body)
	p.head(reply)
	x.answer.out.SetContentType("application/json")
	return x.sendBuffered(reply.Status, body, outcomeOfPassing(reply.Status))
}

// sendWhole passes on an answer that has been read.
func (p *passage) sendWhole(reply providerReply, body []byte) error {
	x := p.x
	x.recording.noteFirstByte()
	p.recordUsage(body)
	if err := p.claim(body); err != nil {
		return err
	}
	p.head(reply)
	x.answer.out.SetContentType(typeOf(reply.Reply))
	return p.send(reply.Status, body)
}

// send records an answer, as far as answers of its type are, and sends it.
func (p *passage) send(status int, body []byte) error {
	x := p.x
	x.recording.closing.Status, x.recording.closing.ContentType = status, x.answer.out.ContentType()
	recorded := passedRecord{x: x, left: mostRecorded(x.answer.out.ContentType())}
	if err := recorded.write(body); err != nil {
		return err
	}
	if err := x.commit(outcomeOfPassing(status)); err != nil {
		return err
	}
	x.answer.out.SetStatus(status)
	x.answer.out.SetBody(body)
	return nil
}

// passedRecord records an answer up to a bound.
type passedRecord struct {
	x    *exchange
	left int
}

func (r *passedRecord) write(p []byte) error {
	n := min(len(p), r.left)
	r.left -= n
	if _, err := r.x.recording.capture.Write(p[:n]); err != nil {
		return err
	}
	r.x.recording.capture.Omit(int64(len(p) - n))
	return nil
}

// typeOf returns the content type of an answer.
func typeOf(reply *router.Reply) string {
	if said := reply.Header.Get("Content-Type"); said != "" {
		return said
	}
	return "application/octet-stream"
}

// head sets the head of an answer.
func (p *passage) head(reply providerReply) {
	x := p.x
	reply.header()
	x.answer.out.Set("Content-Security-Policy", "default-src 'none'; sandbox") // what an account has uploaded is no page of this server
	if at := p.uploadURL(reply.Header.Get("X-Goog-Upload-Url")); at != "" {
		x.answer.out.Set("X-Goog-Upload-Url", at)
	}
}

// uploadURL returns where the client goes on with an upload that the provider wants at an address of its own: here, so that
// it needs no credential of the provider. It is "" if the address is none of the provider's.
func (p *passage) uploadURL(said string) string {
	x := p.x
	at, err := url.Parse(said)
	if said == "" || err != nil || !x.route.placement.Provider.Owns(at) {
		return ""
	}
	in := x.request.in
	scheme := "http"
	if x.proxy.edge.OnTLS(in) || in.Header("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	path := at.EscapedPath()
	name := x.route.placement.Provider.Name()
	if owner, owned := resource.Find(at.Path, resource.OpenAI); !owned || owner.Provider() != name {
		path = "/" + name + path
	}
	query := resource.Without(at.RawQuery, func(name, _ string) bool { return name == "key" })
	if key := cmp.Or(in.Header("X-Goog-Api-Key"), resource.Parameter(in.Query(), "key")); store.LooksLikeKey(key) {
		query += "&key=" + url.QueryEscape(key) // the caller's own: Google's SDK for Python sends the pieces without any header
	}
	return scheme + "://" + in.Host() + path + "?" + query
}

// sendLong passes on an answer as it arrives. front is its part that has been read. Its end is held back until the
// answer is on record; an answer that breaks off is visibly cut. Its error means that nothing has been sent.
func (p *passage) sendLong(reply providerReply, front []byte) error {
	x := p.x
	if err := x.answer.hold(passBuffer); err != nil {
		return err
	}
	if err := p.claim(front); err != nil {
		return err
	}
	if err := x.recording.capture.Recorded(x.ctx); err != nil {
		return err
	}
	p.head(reply)
	x.answer.out.SetContentType(typeOf(reply.Reply))
	x.answer.out.SetStatus(reply.Status)
	x.recording.closing.Status, x.recording.closing.ContentType = reply.Status, x.answer.out.ContentType()
	writer := x.answer.out.Stream()
	if err := p.sendPieces(reply, writer, front); err != nil {
		writer.Abort()
		x.breakOff(err)
	}
	return nil
}

// statedAtEnd is how much of the end of an answer is searched for its usage.
const statedAtEnd = 8 << 10

// sendPieces relays an answer: a piece is read once the client has taken the one before.
func (p *passage) sendPieces(reply providerReply, writer *edge.Stream, piece []byte) error {
	x := p.x
	recorded := passedRecord{x: x, left: mostRecorded(x.answer.out.ContentType())}
	var buffer, end []byte
	for {
		if len(piece) > 0 {
			if x.recording.closing.FirstByte.IsZero() {
				x.recording.noteFirstByte()
			}
			if err := recorded.write(piece); err != nil {
				return err
			}
			end = append(end, piece[max(len(piece)-statedAtEnd, 0):]...)
			end = slices.Delete(end, 0, max(len(end)-statedAtEnd, 0))
			x.answer.sent += int64(len(piece))
			x.answer.begun = true
			if err := send(writer, piece); err != nil {
				return err
			}
		}
		if buffer == nil {
			buffer = make([]byte, passBuffer)
			x.answer.release(x.answer.held - passBuffer) // front has been sent
		}
		n, err := reply.Body.Read(buffer)
		piece = buffer[:n]
		if errors.Is(err, io.EOF) && n == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	x.recording.written = x.answer.sent / bytesPerToken
	p.recordUsage(end)
	return x.commit(outcomeOfPassing(reply.Status))
}

// recordUsage records the usage that the end of an answer states, if a model has answered.
func (p *passage) recordUsage(end []byte) {
	x := p.x
	if isReading(x.request.in.Method()) || x.request.envelope.Model == "" || p.Kind != nil && p.Kind.Thing != "" {
		return
	}
	x.recording.closing.ModelServed = x.route.placement.Model
	x.recording.closing.Usage = resource.Usage(end)
}

// claim notes what the answer says has been made for the account, so that it can be named by it, and by no other one.
func (p *passage) claim(answer []byte) error {
	x := p.x
	method := x.request.in.Method()
	if p.Kind != nil && p.Kind.Thing == "" && p.Verb == "" && p.ID == "" {
		return nil
	}
	account, provider := x.request.caller.Account, x.route.placement.Provider.Name()
	if method == http.MethodDelete {
		if p.shared && p.ID != "" && !p.Below {
			x.proxy.owned.forget(account, p.ID)
			return x.proxy.engine.Notes.GiveUp(x.ctx, account, provider, p.ID)
		}
		return nil
	}
	if isReading(method) && p.ID == "" {
		return nil
	}
	ids := resource.Made(answer)
	if len(ids) > 0 && !isReading(method) {
		x.recording.closing.ResponseID = ids[0]
	}
	if ids = slices.DeleteFunc(ids, func(id string) bool { return x.proxy.owned.has(account, id) }); !p.shared || len(ids) == 0 {
		return nil
	}
	if err := x.proxy.engine.Notes.Claim(x.ctx, account, provider, ids...); err != nil {
		return codec.Errorf(codec.KindStorage, "%s has done what was asked, and it could not be noted whose that is: %v", provider, err)
	}
	for _, id := range ids {
		x.proxy.owned.add(account, id)
	}
	return nil
}

// mostPages is how many pages of a list are asked for until one has something of the account.
const mostPages = 50

// sendList passes on a list with only what is the account's. A page without any is skipped, because clients take it for
// the last one.
func (p *passage) sendList(reply providerReply) error {
	x := p.x
	query := p.query
	defer reply.close() // the last one; the others are closed as they have been read
	for page := 1; ; page++ {
		body, err := reply.whole()
		if err != nil {
			return err
		}
		if !sonic.Valid(body) {
			return reply.notJSON(body)
		}
		list := resource.ReadList(body)
		owned, err := p.owned(list.IDs)
		if err != nil {
			return err
		}
		kept, n := list.Keep(body, owned)
		if n > 0 || list.Next == "" || page == mostPages || resource.Parameter(query, "before") != "" || resource.Parameter(query, "before_id") != "" {
			x.recording.noteFirstByte()
			p.head(reply)
			x.answer.out.SetContentType(jsonType(reply.Header))
			return p.send(reply.Status, kept)
		}
		x.answer.release(x.answer.held)
		reply.close()
		query = resource.With(query, list.Param, list.Next)
		next, err := p.call(query)
		if err != nil {
			return err
		}
		reply = next
		if reply.Status >= http.StatusBadRequest {
			return p.fail(reply)
		}
	}
}

// owned returns which ids the account may name.
func (p *passage) owned(ids []string) (map[string]bool, error) {
	x := p.x
	named := make([]reference, 0, len(ids))
	owned := make(map[string]bool, len(ids))
	for _, id := range ids {
		if id != "" {
			named, owned[id] = append(named, reference{p.Kind.Thing, id, "path"}), true
		}
	}
	foreign, err := x.proxy.owned.foreign(x.request.caller.Account, x.route.placement.Provider.Name(), named)
	for i := range foreign {
		owned[foreign[i].id] = false
	}
	return owned, err
}

// outcomeOfPassing is the outcome of an answer that has been passed on to its end.
func outcomeOfPassing(status int) record.Outcome {
	if status >= http.StatusBadRequest {
		return record.OutcomeUpstreamError
	}
	return record.OutcomeComplete
}
