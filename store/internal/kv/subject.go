package kv

import "fmt"

// SubjectOf returns a description of what a key belongs to.
func SubjectOf(key []byte) string {
	if len(key) > 5 {
		rest := key[5:]
		switch key[0] {
		case SpaceExchange, SpaceOpen, SpaceRequest, SpaceResponse, SpaceBelongs, SpaceTurn:
			if len(rest) >= len(ExchangeID{}) {
				return ExchangeID(rest[:len(ExchangeID{})]).String()
			}
		case SpaceVector:
			if n := len(rest) - len(ExchangeID{}); n >= 0 {
				return ExchangeID(rest[n:]).String()
			}
		case SpaceSession, SpaceMember, SpaceMove, SpaceSummary, SpaceUnsummarized:
			if len(rest) >= len(SessionID{}) {
				return SessionID(rest[:len(SessionID{})]).String()
			}
		case SpaceBlock:
			return fmt.Sprintf("block %x", rest)
		case SpaceNode:
			return fmt.Sprintf("node %x", rest)
		}
	}
	switch {
	case len(key) > 1 && key[0] == SpaceAccount:
		return "account " + string(key[1:])
	case len(key) > 1 && key[0] == SpaceKey:
		return "service key " + string(key[1:])
	}
	return fmt.Sprintf("record %x", key)
}
