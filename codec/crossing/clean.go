package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
)

// CleanHistory removes from a body that passes through what other providers' answers have added to the conversation and
// this provider would refuse, and with it the whole conversation, forever: state tokens, unsigned thinking, members
// that only other hosts know. Only here do equal formats not mean equal bytes (docs/wire/translation.md#1.6). A body
// without any of it, as a search for a few marks shows, is returned unchanged; dropped names what was removed, in the
// client's own terms. A host that wants its reasoning back gets it from the client's own members, else from the ledger.
// Blocks of the body and their fingerprints are optional: blocks known to have no marks are not searched again.
func CleanHistory(body []byte, format codec.Format, s *Settings) (cleaned []byte, dropped []string) {
	clean := definition(format).Clean
	if clean == nil {
		return body, nil
	}
	if !s.Target.Dialect.ReplayReasoning && (len(s.Pieces) > 0 && unmarked.Every(body, s.Pieces, s.Prints, isUnmarked) || isUnmarked(body)) {
		return body, nil
	}
	return cleanMarked(clean, body, s.Target, s.memory())
}

// cleanMarked is separate from CleanHistory, so that bodies without marks cost no memory.
func cleanMarked(clean func(*codec.Cleaner, []byte) []byte, body []byte, target codec.Target, memory Memory) (cleaned []byte, dropped []string) {
	c := codec.Cleaner{Target: &target, Recall: func(id []byte) []byte { return memory.recall(ledgerReasoning, id) }}
	if cleaned = clean(&c, body); !c.Changed {
		return body, nil
	}
	return cleaned, c.Dropped
}

// unmarked has blocks of requests that contain no mark of any format.
var unmarked codec.FingerprintSet

// isUnmarked looks for all marks at once: at the quotes with which they begin.
func isUnmarked(part []byte) bool {
	for {
		quote := bytes.IndexByte(part, '"')
		if quote < 0 || quote+1 == len(part) {
			return true
		}
		part = part[quote+1:]
		for _, mark := range marks[part[0]] {
			if bytes.HasPrefix(part, mark) {
				return false
			}
		}
	}
}
