package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store/private"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// reader reads one file.
type reader struct {
	ctx      context.Context
	client   *client
	give     func(*Session, *record.Exchange) error
	sessions map[sessionKey]*Session
	threads  map[sessionKey]*thread
	unknown  map[string]int
	known    int // lines and parts that were recognized
	cut      int // number of the last line, if that is cut off

	at     place // of the line that is read
	mark   *mark // where the file can be read on; nil: at its beginning
	number int   // of answers without an id
}

func newReader(ctx context.Context, c *client) *reader {
	return &reader{ctx: ctx, client: c, sessions: make(map[sessionKey]*Session), unknown: make(map[string]int)}
}

// readFile reads a file, from its mark on. An error names the file and the line. Everything that is read is also written
// to show.
func (r *reader) readFile(f *File, show io.Writer) error {
	file, err := f.open()
	if err != nil {
		return err
	}
	defer file.Close()
	var from io.Reader = file
	if show != nil {
		from = io.TeeReader(file, show)
	}
	r.threads = make(map[sessionKey]*thread)
	if f.mark != nil {
		if err := r.resume(f, file); err != nil {
			return fmt.Errorf("%s: %w", f.name(), err)
		}
	}
	err = r.client.read(r, from)
	for _, t := range r.threads {
		if err == nil && !f.busy {
			err = t.finish()
		}
	}
	if err == nil && r.known == 0 && r.cut == 0 && f.Size > 0 && f.mark == nil {
		err = fmt.Errorf("line 1: this is not a history of %s", r.client.name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name(), err)
	}
	return r.note(f, file)
}

// unmarshal decodes the known members of a value. A member of another type than the known one is counted as unknown.
func (r *reader) unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other) && other.Field != "":
		r.unknown["a "+other.Value+" as "+other.Field]++
	case err != nil:
		return errNotJSON
	}
	return nil
}

// skip counts an unknown line or part.
func (r *reader) skip(name string) {
	if len(r.unknown) < maxUnknown || r.unknown[name] > 0 {
		r.unknown[lexical.Cut(cmp.Or(name, "without a type"), maxUnknownName)]++
	}
}

const (
	maxUnknown     = 100 // names
	maxUnknownName = 60
)

func (r *reader) session(key sessionKey) *Session {
	s := r.sessions[key]
	if s == nil {
		s = &Session{Native: key.id, Agent: key.agent}
		r.sessions[key] = s
	}
	return s
}

func (r *reader) title(key sessionKey, title string) {
	if title != "" {
		r.session(key).Title = lexical.Cut(private.Cut(title), maxTitle)
	}
}

// count counts an exchange in a first reading. One that is repeated from another conversation only has a time: the ids
// of conversations are derived from their beginning.
func (r *reader) count(s *Session, x *record.Exchange, repeated bool) {
	if s.First.IsZero() || x.Started.Before(s.First) {
		s.First = x.Started
	}
	if x.Started.After(s.Last) {
		s.Last = x.Started
	}
	s.Project = cmp.Or(s.Project, x.Project)
	if !repeated {
		s.Exchanges++
	}
}

// thread returns the conversation that a line belongs to.
func (r *reader) thread(key sessionKey) *thread {
	t := r.threads[key]
	if t == nil {
		t = &thread{reader: r, key: key}
		r.threads[key] = t
	}
	return t
}

// thread splits a conversation into exchanges, one for each answer of a model. A request holds the messages since the
// previous answer, like the requests of agents that continue a conversation kept by the provider. If each held the
// whole history, an import would grow with the square of the conversation's length.
type thread struct {
	reader *reader
	key    sessionKey

	agent   string // what the program calls itself, as in a User-Agent header
	model   string
	project string

	input  [][]byte // in the form of the surface
	size   int
	asked  time.Time // when the last of input was said
	answer *answer   // being read

	from   place  // of the first message of input
	former string // the name of the answer before; parts of it that follow later are left out
}

// answer is what a model answered.
type answer struct {
	id      string // the provider's; "": unknown
	request string // the provider's id of the request; "": unknown
	name    string // unique among the program's answers
	model   string
	parts   [][]byte // in the form of the surface
	usage   record.UsageInfo
	over    bool // what follows belongs to another answer

	input       [][]byte // messages that it answers
	asked       time.Time
	first, last time.Time
}

// ask adds a message to the model.
func (t *thread) ask(message []byte, at time.Time) error {
	if t.answer != nil {
		t.answer.over = true
	}
	if len(t.input) == 0 {
		t.from = t.reader.at
	}
	t.input = append(t.input, message)
	if !at.IsZero() {
		t.asked = at
	}
	return t.grow(len(message))
}

// answers adds a part of an answer. Parts with the same name belong to one answer, unless another one began in between.
func (t *thread) answers(name string, part []byte, at time.Time) (*answer, error) {
	if t.answer == nil && name == t.former {
		return new(answer), nil // is on record without it
	}
	if a := t.answer; a == nil || a.name != name {
		if a != nil {
			a.over = true
		}
		if err := t.finish(); err != nil {
			return nil, err
		}
		t.answer = &answer{name: name, model: t.model, input: t.input, asked: t.asked, first: at}
		t.input, t.size, t.asked = nil, 0, time.Time{}
	}
	a := t.answer
	if at.After(a.last) {
		a.last = at
	}
	a.parts = append(a.parts, part)
	return a, t.grow(len(part))
}

func (t *thread) grow(n int) error {
	if t.size += n; t.size > maxPiece {
		return fmt.Errorf("a turn is longer than the maximum of %d MiB", maxPiece>>20)
	}
	return nil
}

// finish passes on the exchange of the latest answer.
func (t *thread) finish() error {
	a := t.answer
	if t.answer = nil; a == nil {
		return nil
	}
	if err := t.reader.ctx.Err(); err != nil {
		return err
	}
	started := a.asked
	if started.IsZero() {
		started = a.first
	}
	if started.IsZero() {
		return errors.New("an answer has no time")
	}
	if err := record.CheckTimes(time.Now(), started, a.first, a.last); err != nil {
		return err
	}
	shape := t.reader.client.shape
	model := cmp.Or(a.model, t.model)
	x := &record.Exchange{
		ExchangeInfo: record.ExchangeInfo{
			ID: record.DerivedExchangeID(started, t.reader.client.name, a.name), Outcome: record.OutcomeComplete, Status: 200,
			Started: started.UTC(), FirstByte: a.first.UTC(), LastByte: a.last.UTC(),
			Surface: shape.surface.String(), Format: shape.surface.String(), ModelAsked: model, ModelSent: model, ModelServed: model,
			NativeSession: t.key.id, NativeAgent: t.key.agent, Project: project.Clean(t.project),
			Usage: believed(a.usage), ResponseID: a.id, ProviderReqID: a.request, RequestType: "application/json", ResponseType: "application/json",
		},
		RawRequest:  shape.request(model, a.input),
		RawResponse: shape.response(a.id, model, a.parts),
	}
	if t.agent != "" {
		x.Header = []record.HeaderField{{Name: "User-Agent", Value: t.agent}}
	}
	if err := t.reader.give(t.reader.session(t.key), x); err != nil {
		return err
	}
	if a.over {
		t.mark(a)
	}
	return nil
}

// believed returns the counts that an answer can have; others are unknown.
func believed(u record.UsageInfo) record.UsageInfo {
	for _, n := range []*int64{&u.InputUncached, &u.CacheRead, &u.CacheWrite, &u.CacheLong, &u.Output, &u.Reasoning} {
		if *n < 0 || *n > codec.MaxTokens {
			*n = 0
		}
	}
	return u
}
