package server

import (
	"bytes"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store"
)

// What a request says about its conversation, beyond the service's own fields: the client's own ids where there are any
// (docs/wire/clients.md#1), else keys that are derived from its opening messages.

// evidence fills in what tells the session of an exchange.
func (x *exchange) evidence(o *store.Opening) {
	if x.in.HasHeader(headerReplay) {
		o.Auxiliary = store.AuxiliaryReplay // what the request says of its conversation is true of the original alone
		return
	}
	n := x.nativeSession()
	o.NativeSession, o.NativeAgent, o.NativeParent = n.session, n.agent, n.parent
	o.PreviousResponse, o.Conversation = keptID(x.envelope.PreviousResponse), keptID(x.envelope.Conversation)
	if o.Auxiliary = x.auxiliary; o.Auxiliary == "" {
		o.Auxiliary = n.auxiliary
	}
	if o.Auxiliary == "" {
		o.Auxiliary = x.auxiliaryByWords()
	}
	if o.ChatKey != "" || o.ExternalSession != "" || o.NativeSession != "" || o.Conversation != "" {
		return
	}
	keys := chatkey.Derive(x.surface, o.Body, &x.envelope) // as it is stored, so that the digest derives the same
	o.DerivedOpening, o.DerivedReply = keys.Opening, keys.Reply
}

// project names what the request is about: what a header says, else the directory that the client states.
func (x *exchange) project() string {
	if name := project.Clean(x.in.Header(headerProject)); name != "" {
		return name
	}
	if x.surface == codec.Embeddings {
		return ""
	}
	return project.Of(x.body, &x.envelope)
}

// native is what a client says of its conversation in its own words.
type native struct {
	session   string
	agent     string // the subagent that speaks, "" for the main one
	parent    string // the agent that it works for
	auxiliary string
}

// keptID is an id that a client sent in members of its own; a value that could not be kept as an id is none.
func keptID(id string) string {
	if codec.CheckContinuity("id", id) != nil {
		return ""
	}
	return id
}

// nativeSession finds the client's own ids.
func (x *exchange) nativeSession() native {
	n := x.claudeCode()
	if n.session == "" {
		n = x.codex()
	}
	if n.session == "" {
		n.session = x.firstHeader("X-Session-Id", "X-Session-Affinity") // opencode
	}
	n.session, n.agent, n.parent = keptID(n.session), keptID(n.agent), keptID(n.parent)
	return n
}

func (x *exchange) firstHeader(names ...string) string {
	for _, name := range names {
		if value := x.in.Header(name); value != "" {
			return value
		}
	}
	return ""
}

// claudeCode reads the ids of Claude Code, whose subagents share the session id and have one of their own beside it. The
// session id also stands in metadata.user_id, which holds JSON, and in older versions ends with it.
func (x *exchange) claudeCode() (n native) {
	n.session = x.firstHeader("X-Claude-Code-Session-Id")
	if n.session == "" && crossing.Traits(x.surface).Client.PrivateUser {
		user := scan.String(scan.Get(x.envelope.Metadata.Of(x.body), "user_id"))
		if n.session = scan.String(scan.Get([]byte(user), "session_id")); n.session == "" {
			_, n.session, _ = strings.Cut(user, "_session_")
		}
	}
	n.agent = x.firstHeader("X-Claude-Code-Agent-Id")
	n.parent = x.firstHeader("X-Claude-Code-Parent-Agent-Id")
	return n
}

// codex reads the ids of Codex. Its thread is the session in a plain run, and another in a subagent. A prompt cache key
// is the session's id only where Codex sends it: elsewhere it can be one for all conversations.
func (x *exchange) codex() (n native) {
	metadata := []byte(x.firstHeader("X-Codex-Turn-Metadata"))
	n.session = x.firstHeader("Session-Id", "Session_id", "Conversation_id")
	if n.session == "" {
		n.session = scan.String(scan.Get(metadata, "session_id"))
	}
	if n.session == "" && isCodex(x.firstHeader("Originator"), x.firstHeader("User-Agent")) {
		n.session = x.envelope.PromptCacheKey
	}
	thread := x.firstHeader("Thread-Id")
	if thread == "" {
		thread = scan.String(scan.Get(metadata, "thread_id"))
	}
	if thread != n.session {
		n.agent = thread
	}
	switch kind := scan.String(scan.Get(metadata, "request_kind")); kind {
	case "prewarm":
		n.auxiliary = store.AuxiliaryPrewarm
	case "compact", "compaction":
		n.auxiliary = store.AuxiliarySummary
	}
	return n
}

// Agents also ask models for titles and summaries of their conversations, and say so in the first words of their
// instructions, or for summaries in those of the last message. Only requests without tools ask for titles.
var (
	titleMarks   = []string{"title generator", "generate a concise title", "generate a title for", "5-10 word title"}
	summaryMarks = []string{"tasked with summarizing conversations", "your task is to create a detailed summary of the conversation", "context checkpoint compaction"}
)

// firstWords is how many bytes of a message are looked at for what it is about.
const firstWords = 512

func (x *exchange) auxiliaryByWords() string {
	if x.surface == codec.Embeddings {
		return ""
	}
	e := &x.envelope
	for i, block := range e.Opening {
		if i == 3 {
			break
		}
		if kind := x.kindByWords(block); kind != "" {
			return kind
		}
	}
	if len(e.Items) == 0 {
		return ""
	}
	if kind := x.kindByWords(e.Items[0]); kind != "" && isInstruction(e.Items[0].Of(x.body)) {
		return kind
	}
	if last := e.Items[len(e.Items)-1]; holdsAny(head(last.Of(x.body)), summaryMarks) {
		return store.AuxiliarySummary
	}
	return ""
}

func (x *exchange) kindByWords(block codec.Span) string {
	words := head(block.Of(x.body))
	switch {
	case len(x.envelope.Tools) == 0 && holdsAny(words, titleMarks):
		return store.AuxiliaryTitle
	case holdsAny(words, summaryMarks):
		return store.AuxiliarySummary
	}
	return ""
}

func isInstruction(item []byte) bool {
	role := scan.String(scan.Get(item, "role"))
	return role == "system" || role == "developer"
}

func head(text []byte) []byte { return bytes.ToLower(text[:min(len(text), firstWords)]) }

func holdsAny(words []byte, marks []string) bool {
	for _, mark := range marks {
		if bytes.Contains(words, []byte(mark)) {
			return true
		}
	}
	return false
}
