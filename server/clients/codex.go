package clients

import (
	"strings"

	"github.com/mnemeproxy/mneme/store/record"
)

// codex calls the thread of a plain run its session, and a subagent's thread something else (docs/wire/clients.md#1). A
// prompt cache key is the session's id only if Codex sends it: elsewhere it can be one for all conversations.
var codex = client{
	headers: []string{
		"User-Agent", "Originator", "Session-Id", "Session_id", "Conversation_id", "Thread-Id", "X-Client-Request-Id", "X-Codex-Turn-Metadata",
	},
	hints: func(r *Request) (h Hints) {
		metadata := []byte(r.Header("X-Codex-Turn-Metadata"))
		h.Session = r.first("Session-Id", "Session_id", "Conversation_id")
		if h.Session == "" {
			h.Session = member(metadata, "session_id")
		}
		if h.Session == "" && IsCodex(r) {
			h.Session = r.Envelope.PromptCacheKey
		}
		thread := r.Header("Thread-Id")
		if thread == "" {
			thread = member(metadata, "thread_id")
		}
		if thread != h.Session {
			h.Agent = thread
		}
		switch member(metadata, "request_kind") {
		case "prewarm":
			h.Auxiliary = record.AuxiliaryPrewarm
		case "compact", "compaction":
			h.Auxiliary = record.AuxiliarySummary
		}
		return h
	},
	summaries: []string{"context checkpoint compaction"},
}

// IsCodex reports whether the Codex command line sends a request. It drops refusal parts, so it gets refusals as text.
func IsCodex(h Headers) bool {
	return strings.HasPrefix(h.Header("Originator"), "codex") || strings.HasPrefix(h.Header("User-Agent"), "codex")
}
