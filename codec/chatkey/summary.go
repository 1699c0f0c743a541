package chatkey

import "strings"

// summaries begin the text that a client puts in place of earlier messages when it has compacted a conversation.
var summaries = [...]string{
	"This session is being continued from a previous conversation",            // Claude Code
	"Another language model started to solve this problem and produced a sum", // Codex
}

// IsSummary reports whether a user's text is a client's summary of earlier messages, and not the person's words.
func IsSummary(text string) bool {
	text = strings.TrimSpace(text)
	for _, opening := range summaries {
		if strings.HasPrefix(text, opening) {
			return true
		}
	}
	return false
}
