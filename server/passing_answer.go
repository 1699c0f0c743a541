package server

import (
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
)

// requireOwnTarget returns an error unless all that a request names at its provider is the account's, and what it asks for
// can be told apart by accounts.
func (x *exchange) requireOwnTarget() error {
	r, p := &x.request, x.request.passing
	several := x.server.references.several(x.server.engine.Accounts)
	provider := x.route.placement.Provider.Name()
	unknown := p.Kind == nil && r.in.Method() == http.MethodPost && r.envelope.Model != "" // it asks a model
	if several && !p.Apart(r.in.Method()) && !unknown {
		return codec.Errorf(codec.KindPermission, "With the server's credential for %s, %s is not passed on, because what it is about may belong to another account. Set the account's own with: mneme account credential set %s %s",
			provider, edge.Printable(p.Path), r.caller.Account, provider)
	}
	var named []reference
	if p.ID != "" {
		kind := p.Kind.Thing
		if kind == "" {
			kind = "Operation"
		}
		named = append(named, reference{kind, p.ID, "path"})
	}
	if p.read {
		references(r.body, func(r reference) { named = append(named, r) })
	}
	return x.requireOwn(named)
}

// passReply passes an answer on.
func (x *exchange) passReply(credential router.Credential, reply *router.Reply) error {
	defer func() { _ = reply.Body.Close() }()
	switch p := x.request.passing; {
	case reply.Status >= http.StatusBadRequest:
		return x.passFailure(reply)
	case p.shared && p.IsList(x.request.in.Method()) && x.server.references.several(x.server.engine.Accounts):
		return x.passList(credential, reply)
	case isEventStream(reply):
		return x.passLongReply(reply, nil)
	}
	front, ended, err := x.readUpTo(reply, nil, completeAnswer)
	switch {
	case err != nil:
		return err
	case !ended:
		return x.passLongReply(reply, front)
	}
	return x.passWhole(reply, front)
}

// passFailure passes on a provider's error.
func (x *exchange) passFailure(reply *router.Reply) error {
	body, err := x.readComplete(reply)
	if err != nil {
		return err
	}
	x.request.redactor.MaskKnown(body)
	if !sonic.Valid(body) {
		body = x.errorInForm(reply, body)
	}
	x.recording.noteFirstByte()
	x.recordError(reply.Status, body)
	x.passHead(reply)
	x.answer.out.SetContentType("application/json")
	return x.sendBuffered(reply.Status, body, outcomeOfPassing(reply.Status))
}

// passWhole passes on an answer that has been read.
func (x *exchange) passWhole(reply *router.Reply, body []byte) error {
	x.recording.noteFirstByte()
	x.recordUsage(body)
	if err := x.claim(body); err != nil {
		return err
	}
	x.passHead(reply)
	x.answer.out.SetContentType(x.typeOf(reply))
	return x.sendPassed(reply.Status, body)
}

// sendPassed records an answer, as far as answers of its type are, and sends it.
func (x *exchange) sendPassed(status int, body []byte) error {
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

// passHead sets the head of an answer.
func (x *exchange) passHead(reply *router.Reply) {
	x.answerHeader(reply)
	x.answer.out.Set("Content-Security-Policy", "default-src 'none'; sandbox") // what an account has uploaded is no page of this server
	if at := x.uploadURL(reply.Header.Get("X-Goog-Upload-Url")); at != "" {
		x.answer.out.Set("X-Goog-Upload-Url", at)
	}
}

// typeOf returns the content type of an answer.
func (*exchange) typeOf(reply *router.Reply) string {
	if said := reply.Header.Get("Content-Type"); said != "" {
		return said
	}
	return "application/octet-stream"
}

// uploadURL returns where the client goes on with an upload that the provider wants at an address of its own: here, so that
// it needs no credential of the provider. It is "" if the address is none of the provider's.
func (x *exchange) uploadURL(said string) string {
	at, err := url.Parse(said)
	if said == "" || err != nil || !x.route.placement.Provider.Owns(at) {
		return ""
	}
	in := x.request.in
	scheme := "http"
	if x.server.edge.OnTLS(in) || in.Header("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	path := at.EscapedPath()
	if _, owned := resource.Find(at.Path, false); !owned {
		path = "/" + x.route.placement.Provider.Name() + path
	}
	query := resource.Without(at.RawQuery, func(name, _ string) bool { return name == "key" })
	return scheme + "://" + in.Host() + path + "?" + query
}

// passLongReply passes on an answer as it arrives. front is its part that has been read. Its end is held back until the
// answer is on record; an answer that breaks off is visibly cut. Its error means that nothing has been sent.
func (x *exchange) passLongReply(reply *router.Reply, front []byte) error {
	if err := x.hold(passBuffer); err != nil {
		return err
	}
	if err := x.claim(front); err != nil {
		return err
	}
	if err := x.recording.capture.Recorded(x.ctx); err != nil {
		return err
	}
	x.passHead(reply)
	x.answer.out.SetContentType(x.typeOf(reply))
	x.answer.out.SetStatus(reply.Status)
	x.recording.closing.Status, x.recording.closing.ContentType = reply.Status, x.answer.out.ContentType()
	writer := x.answer.out.Stream()
	if err := x.passPieces(reply, writer, front); err != nil {
		writer.Abort()
		x.breakOff(err)
	}
	return nil
}

// statedAtEnd is how much of the end of an answer is searched for its usage.
const statedAtEnd = 8 << 10

// passPieces relays an answer: a piece is read once the client has taken the one before.
func (x *exchange) passPieces(reply *router.Reply, writer *edge.Stream, piece []byte) error {
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
			x.releaseHeld(x.answer.held - passBuffer) // front has been sent
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
	x.recordUsage(end)
	return x.commit(outcomeOfPassing(reply.Status))
}

// recordUsage records the usage that the end of an answer states, if a model has answered.
func (x *exchange) recordUsage(end []byte) {
	p := x.request.passing
	if isReading(x.request.in.Method()) || x.request.envelope.Model == "" || p.Kind != nil && p.Kind.Thing != "" {
		return
	}
	x.recording.closing.ModelServed = x.route.placement.Model
	x.recording.closing.Usage = resource.Usage(end)
}

// claim notes what the answer says has been made for the account, so that it can be named by it, and by no other one.
func (x *exchange) claim(answer []byte) error {
	p, method := x.request.passing, x.request.in.Method()
	if p.Kind != nil && p.Kind.Thing == "" && p.Verb == "" && p.ID == "" {
		return nil
	}
	account, provider := x.request.caller.Account, x.route.placement.Provider.Name()
	if method == http.MethodDelete {
		if p.shared && p.ID != "" && !p.Below {
			x.server.references.forget(account, p.ID)
			return x.server.engine.Notes.GiveUp(x.ctx, account, provider, p.ID)
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
	if ids = slices.DeleteFunc(ids, func(id string) bool { return x.server.references.has(account, id) }); !p.shared || len(ids) == 0 {
		return nil
	}
	if err := x.server.engine.Notes.Claim(x.ctx, account, provider, ids...); err != nil {
		return codec.Errorf(codec.KindStorage, "%s has done what was asked, and it could not be noted whose that is: %v", provider, err)
	}
	for _, id := range ids {
		x.server.references.add(account, id)
	}
	return nil
}

// mostPages is how many pages of a list are asked for until one has something of the account.
const mostPages = 50

// passList passes on a list with only what is the account's. A page without any is skipped, because clients take it for
// the last one.
func (x *exchange) passList(credential router.Credential, reply *router.Reply) error {
	p := x.request.passing
	query := p.query
	defer func() { _ = reply.Body.Close() }() // the last one; the others are closed as they have been read
	for page := 1; ; page++ {
		body, err := x.readComplete(reply)
		if err != nil {
			return err
		}
		if !sonic.Valid(body) {
			return x.route.notJSON(reply, body)
		}
		list := resource.ReadList(body)
		owned, err := x.owned(list.IDs)
		if err != nil {
			return err
		}
		kept, n := list.Keep(body, owned)
		if n > 0 || list.Next == "" || page == mostPages || resource.Parameter(query, "before") != "" || resource.Parameter(query, "before_id") != "" {
			x.recording.noteFirstByte()
			x.passHead(reply)
			x.answer.out.SetContentType(jsonType(reply.Header))
			return x.sendPassed(reply.Status, kept)
		}
		x.releaseHeld(x.answer.held)
		_ = reply.Body.Close()
		query = resource.With(query, list.Param, list.Next)
		next, err := x.callPassing(credential, query)
		if err != nil {
			return err
		}
		reply = next
		if reply.Status >= http.StatusBadRequest {
			return x.passFailure(reply)
		}
	}
}

// owned returns which ids the account may name.
func (x *exchange) owned(ids []string) (map[string]bool, error) {
	named := make([]reference, 0, len(ids))
	owned := make(map[string]bool, len(ids))
	for _, id := range ids {
		if id != "" {
			named, owned[id] = append(named, reference{x.request.passing.Kind.Thing, id, "path"}), true
		}
	}
	foreign, err := x.server.references.foreign(x.server.engine, x.request.caller.Account, x.route.placement.Provider.Name(), named)
	for i := range foreign {
		owned[foreign[i].id] = false
	}
	return owned, err
}
