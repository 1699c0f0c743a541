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
		metadata := []byte(turnMetadata(r))
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
		case "compact", "compaction", "memory":
			h.Auxiliary = record.AuxiliarySummary
		}
		return h
	},
	summaries: []string{"context checkpoint compaction"},
}

// turnMetadata returns what Codex says about a request, as JSON. On a WebSocket the header is that of the connection: it speaks
// of the request that warmed the cache.
func turnMetadata(r *Request) string {
	if said := member(r.Envelope.ClientMetadata.Of(r.Body), "x-codex-turn-metadata"); said != "" {
		return said
	}
	return r.Header("X-Codex-Turn-Metadata")
}

// IsCodex reports whether the Codex command line sends a request. It drops refusal parts, so it gets refusals as text.
func IsCodex(h Headers) bool {
	return strings.HasPrefix(h.Header("Originator"), "codex") || strings.HasPrefix(h.Header("User-Agent"), "codex")
}
