package search

import (
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// Beginning is how a person recognizes a session without a title.
type Beginning struct {
	Asked    string `json:"asked,omitempty"`    // the start of the first question, without what clients put before it
	Answered string `json:"answered,omitempty"` // the start of the last answer that ends a round; see [Round]
	Client   string `json:"client,omitempty"`   // the program, such as claude-code
	Project  string `json:"project,omitempty"`  // the working directory

	Imported time.Time `json:"imported,omitzero"` // when its beginning was imported from the history of its client
}

// firstEntries is how many exchanges of a session are searched for its first question. Clients begin with requests of
// their own: for a title, or to warm a cache.
const firstEntries = 5

// Timelines reads what the exchanges of a session added to it.
type Timelines interface {
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
}

// lastEntries is how many exchanges of a session are searched for its last answer: in more, an agent is still at work.
const lastEntries = 5

// ReadBeginning reads how a session began, and its last answer. It reads up to ten turns, at 50 to 100 µs each.
func ReadBeginning(from Timelines, account, session string) (b Beginning, err error) {
	page, err := from.Timeline(account, session, record.TimelineQuery{Limit: firstEntries})
	if err != nil {
		return b, err
	}
	if len(page.Data) > 0 {
		b.Imported = page.Data[0].Exchange.Imported
	}
	for i := range page.Data {
		e := &page.Data[i]
		if b.Client == "" {
			b.Client = e.Exchange.Client()
		}
		if b.Project == "" {
			b.Project = e.Exchange.Project
		}
		if e.Turn == nil || e.Exchange.Auxiliary != "" {
			continue
		}
		if b.Asked = FirstSentence(firstSpoken(e.Turn.Messages, "user")); b.Asked != "" {
			break
		}
	}
	if page.HasMore {
		page, err = from.Timeline(account, session, record.TimelineQuery{Limit: lastEntries, Descending: true})
		slices.Reverse(page.Data)
	}
	for i := range page.Data {
		if t := page.Data[i].Turn; Ends(t) {
			b.Answered = FirstSentence(Said(t))
		}
	}
	return b, err
}
