package server

import (
	"errors"
	"io"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
)

// passing is a request of the surface pass: for something that a provider offers besides answers in a surface's format.
// Request and answer go through as they are, and as they arrive.
type passing struct {
	resource.Target
	google  bool             // it is Google's API
	byModel bool             // the model decides, if it has a route
	query   string           // without credentials
	json    bool             // the body is JSON, unpacked and read
	shared  bool             // several accounts use the provider with one credential
	upload  *edge.Upload     // what has not been read of the body; nil: the rest of it is in body
	front   []byte           // of a body that is uploaded
	kept    []byte           // of the body, for the record
	owner   *router.Provider // by the path
}

// How much of the bodies of such requests and answers is recorded. Media would fill the store.
const (
	mostText  = 1 << 20  // of JSON, text and events
	mostMedia = 64 << 10 // of anything else
)

// isPiece reports whether the body is a piece of a file, whatever its type says: Google's SDKs call all bodies JSON.
func (p *passing) isPiece(in *edge.Request) bool {
	return strings.HasPrefix(p.Path, "/upload/") && strings.Contains(strings.ToLower(in.Header("X-Goog-Upload-Command")), "upload")
}

func (r *request) readForm(contentType string) (err error) {
	if encoding := r.in.Header("Content-Encoding"); encoding != "" {
		return codec.Errorf(codec.KindUnsupportedMedia, "The form's Content-Encoding is %s; the model cannot be read in it. Send the form as it is.", edge.Printable(encoding))
	}
	if r.body, err = r.in.ReadBody(&r.share); err != nil {
		r.unread = true
		return err
	}
	r.envelope.Model, err = resource.FormModel(contentType, r.body)
	return err
}

// beginUpload reads the front of a body. If that is all of it, there is nothing to upload.
func (r *request) beginUpload() error {
	p := r.passing
	room := int64(mostMedia)
	if announced := r.in.Announced(); announced > 0 {
		room = min(room, announced)
	}
	if err := r.share.Take(room); err != nil {
		return err
	}
	p.upload = r.in.Upload()
	p.front = make([]byte, room)
	n, err := io.ReadFull(p.upload, p.front)
	p.front = p.front[:n]
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && p.upload.Whole(), err == nil && int64(n) == r.in.Announced():
		r.body, p.upload, p.front = p.front, nil, nil
	case err != nil:
		r.unread = true
		return err
	}
	return nil
}

// stop ends the upload: the body belongs to the client's connection, which goes on without this request.
func (p *passing) stop() {
	if p != nil && p.upload != nil {
		p.upload.Stop()
	}
}

// asksModel reports whether a model answers the request, which it names.
func (p *passing) asksModel() bool { return p != nil && p.AsksModel() }

// asksForText reports whether a model answers with text, or may.
func (p *passing) asksForText() bool { return p != nil && p.AsksForText() }

// mostPrompt bounds the estimate of the tokens of a request's body, most of which is media.
const mostPrompt = 32 << 10

func (p *passing) estimatedTokens(size int64) int64 {
	if !p.asksModel() {
		return 0
	}
	return min(size, mostPrompt)/bytesPerToken + 1
}

// as returns the target of the request, for the record.
func (p *passing) as(method string) string {
	target := method + " " + p.Path
	if p.query != "" {
		target += "?" + p.query
	}
	if len(target) > mostTarget {
		target = strings.ToValidUTF8(target[:mostTarget], "")
	}
	return target
}

// mostTarget is how many bytes of a target are recorded.
const mostTarget = 1 << 10

// abridge decides what of the body is recorded.
func (p *passing) abridge(r *request) {
	if p == nil {
		return
	}
	p.kept = r.body
	if p.upload != nil {
		p.kept = p.front
	}
	if most := mostRecorded(r.in.ContentType()); len(p.kept) > most {
		p.kept = p.kept[:most]
		r.blocks, r.prints, r.envelope.Items = nil, nil, nil
	}
}

// recorded returns the body as far as it is recorded.
func (r *request) recorded() []byte {
	if r.passing != nil {
		return r.passing.kept
	}
	return r.body
}

// mostRecorded is how much of a body of a type is recorded.
func mostRecorded(contentType string) int {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	if media = strings.TrimSpace(media); strings.HasPrefix(media, "text/") || isJSON(media) || strings.HasSuffix(media, "jsonl") {
		return mostText
	}
	return mostMedia
}

// googles reports whether the path is one of Google's API.
func (r *request) googles() bool { return r.addressed != nil || r.passing != nil && r.passing.google }
