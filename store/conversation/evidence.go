package conversation

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Evidence is what an opening says about its session.
type Evidence struct {
	Explicit                 []record.Clue // ids, strongest first; an agent's differ from those of the session it works in
	Parent                   []record.Clue // the same for the session that the agent works for
	Agent                    string
	Response, Opening, Reply string
	Follows                  kv.SessionID // of another node's answer that the request continues; zero: none
	Auxiliary                bool
	Refused                  bool                             // no provider was chosen
	IDs                      [len(record.SessionKinds)]string // of explicit, without an agent

	room [4]record.Clue // for explicit
	Of   Facts
}

// Facts is what a session's record takes from an exchange that begins.
type Facts struct {
	Account, Surface, Model, Auxiliary, Client, Project string
	Started                                             time.Time
}

// EvidenceOf collects the evidence of an opening and its record, whose texts it shares.
func EvidenceOf(o *record.Opening, info *record.ExchangeInfo) *Evidence {
	e := &Evidence{
		Of:    Facts{info.Account, info.Surface, info.ModelAsked, info.Auxiliary, info.Client(), info.Project, info.Started},
		Agent: o.NativeAgent, Response: o.PreviousResponse, Opening: o.DerivedOpening, Reply: o.DerivedReply, Auxiliary: o.Auxiliary != "",
		Refused: o.Format == codec.FormatUnknown,
		IDs:     [...]string{o.ChatKey, o.ExternalSession, o.NativeSession, o.Conversation},
	}
	if id, ok := kv.ParseSessionID(o.Follows); ok {
		e.Follows = id
	}
	e.Explicit = e.clues(e.room[:0], o.NativeAgent)
	if o.NativeAgent != "" {
		e.Parent = e.clues(nil, o.NativeParent)
	}
	return e
}

func (e *Evidence) clues(clues []record.Clue, agent string) []record.Clue {
	for i, kind := range record.SessionKinds {
		c := record.Clue{Kind: kind, Value: e.IDs[i]}
		if c.Value == "" {
			continue
		}
		if agent != "" {
			c.Value += "\x00" + agent
		}
		clues = append(clues, c)
	}
	return clues
}

// None reports whether there is no evidence at all.
func (e *Evidence) None() bool {
	return len(e.Explicit) == 0 && e.Response == "" && e.Opening == "" && e.Reply == ""
}
