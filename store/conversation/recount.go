package conversation

import (
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Recount makes a session again from its exchanges, which next returns page by page in the order in which they began. What
// people have written about the session, what was merged into it, and what leads to it stay. If there is no record of it,
// one is made: without title, tags and note, which no exchange has.
func (s *Sessions) Recount(session string, next func() ([]record.ExchangeInfo, error)) error {
	id, ok := kv.ParseSessionID(session)
	if !ok {
		return nil
	}
	r := s.At(id)
	if s.err != nil || r != nil && r.Merged != "" {
		return s.err
	}
	made := r == nil
	if made {
		r = &record.StoredSession{Session: record.Session{ID: session, Derived: true}}
	}
	r.Exchanges, r.Completed, r.Auxiliary = 0, 0, 0
	r.Usage, r.Cost, r.Prompts = record.UsageInfo{}, record.Spending{}, nil
	for {
		page, err := next()
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			s.recountExchange(id, r, &page[i], made)
		}
	}
	switch {
	case made && r.Account == "":
		return s.err // there is nothing to make it from
	case made:
		PutInOrder(s, s.account, id, r)
	}
	s.Put(id, r)
	return s.err
}

// recountExchange counts an exchange of a session, and links what it says about it.
func (s *Sessions) recountExchange(id kv.SessionID, r *record.StoredSession, info *record.ExchangeInfo, made bool) {
	if r.Exchanges++; info.Outcome == record.OutcomeDamaged {
		return
	}
	said := record.Session{ChatKey: info.ChatKey, ExternalSession: info.ExternalSession, NativeSession: info.NativeSession, Agent: info.NativeAgent}
	if made && r.Account == "" {
		r.Account, r.Created, r.Agent = info.Account, info.Started, info.NativeAgent
		r.Parent = s.parentOf(&said)
	}
	if info.Started.After(r.Updated) {
		r.Updated = info.Started
	}
	r.AddModel(info.ModelAsked)
	r.NoteOrigin(info.Client(), info.Project)
	r.Count(info, 1)
	r.Sketch(info, 1)
	if key := AnswerLink(s.account, info); key != nil {
		s.PutLink(key, id)
	}
	if info.Format == "" { // it was refused before a provider was chosen: such requests link nothing
		return
	}
	if said.ChatKey != "" || said.ExternalSession != "" || said.NativeSession != "" {
		if made {
			r.Derived = false
		}
		(&Arrival{Account: s.account, Session: &record.StoredSession{Session: said}}).linkTo(s, id, r)
	}
}

// parentOf returns the session that an agent's works for; "" if there is none.
func (s *Sessions) parentOf(of *record.Session) string {
	if of.Agent == "" {
		return ""
	}
	main := &record.StoredSession{Session: *of}
	main.Agent = ""
	for _, kind := range record.SessionKinds {
		c := record.Clue{Kind: kind, Value: main.Known(kind)}
		if c.Value == "" {
			continue
		}
		if id, ok := s.Link(record.LinkKey(s.account, c)); ok {
			return id.String()
		}
	}
	return ""
}
