package clients

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec/crossing"
)

// claudeCode sends a session id that its subagents share, and their own ids besides (docs/wire/clients.md#1). The
// session id is also in metadata.user_id, which holds JSON, and in older versions ends with it.
var claudeCode = client{
	headers: []string{
		"User-Agent", "X-App", "Anthropic-Version", "Anthropic-Beta",
		"X-Claude-Code-Session-Id", "X-Claude-Code-Agent-Id", "X-Claude-Code-Parent-Agent-Id",
	},
	hints: func(r *Request) (h Hints) {
		h.Session = r.Header("X-Claude-Code-Session-Id")
		if h.Session == "" && crossing.Traits(r.Surface).Client.PrivateUser {
			user := member(r.Envelope.Metadata.Of(r.Body), "user_id")
			if h.Session = member([]byte(user), "session_id"); h.Session == "" {
				_, h.Session, _ = strings.Cut(user, "_session_")
			}
		}
		h.Agent = r.Header("X-Claude-Code-Agent-Id")
		h.Parent = r.Header("X-Claude-Code-Parent-Agent-Id")
		return h
	},
	titles:    []string{"generate a concise title", "5-10 word title"},
	summaries: []string{"tasked with summarizing conversations", "your task is to create a detailed summary of the conversation"},
}
