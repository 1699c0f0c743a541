package store

import (
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// An exchange from elsewhere is believed what one that was recorded here could say. It cannot change the books: it is
// nobody's key's, and its cost is a list price, which was not spent here.

// repeats reports whether an exchange from a client's history has an answer that another session has already: clients
// copy the beginning of a conversation when they resume or fork it.
func repeats(g *writing.Group, account kv.AccountNumber, session string, info *record.ExchangeInfo) bool {
	if !info.FromHistory() {
		return false
	}
	key := conversation.AnswerLink(account, info)
	if key == nil {
		return false
	}
	id, known := g.Sessions.LinkAt(key)
	return known && id.String() != session && g.Sessions.At(kv.SessionRef{Account: account, ID: id}) != nil
}
