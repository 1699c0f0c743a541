package store

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestWhatIsMarkedAsPrivateIsWithheldFromMessages(t *testing.T) {
	part := func(kind, text string) record.Part { return record.Part{Kind: kind, Text: text} }
	call := func(arguments string) record.Part {
		return record.Part{Kind: "call", Name: "write", Arguments: arguments}
	}
	document := func(text string) record.Part { return record.Part{Kind: "text", Name: "a.txt", Text: text} }
	picture := record.Part{Kind: "media", MediaType: "image/png", Name: "door.png", URL: "https://example.com/door.png", Bytes: 9}
	for name, row := range map[string]struct{ said, kept []record.Part }{
		"open over parts": {
			[]record.Part{part("text", "a <private>secret"), picture, document("secret"), part("text", "secret</private> b"), picture},
			[]record.Part{part("text", "a "), {Kind: "media", MediaType: "image/png", Bytes: 9}, {Kind: "text"}, part("text", " b"), picture},
		},
		"a result of several parts": {
			[]record.Part{part("result", `a \u003cprivate\u003esecret`), picture, part("text", "secret</private> b"), part("result", "<private>secret"), part("text", "secret"), part("result", "c"), part("text", "d")},
			[]record.Part{part("result", "a "), {Kind: "media", MediaType: "image/png", Bytes: 9}, part("text", " b"), part("result", ""), part("text", ""), part("result", "c"), part("text", "d")},
		},
		"names": {
			[]record.Part{{Kind: "text", Text: "a", Name: "<private>secret</private>"}, {Kind: "media", Name: "a <private>secret"}},
			[]record.Part{part("text", "a"), {Kind: "media", Name: "a "}},
		},
		"results and documents of their own": {
			[]record.Part{part("result", "a <private>secret"), part("result", `{"text":"a \u003cprivate\u003esecret\u003c/private\u003e b"}`), part("result", `\u003cb\u003e`), document("b <private>secret"), part("text", "c"), part("reasoning", "<private>secret"), part("text", "d")},
			[]record.Part{part("result", "a "), part("result", `{"text":"a  b"}`), part("result", `\u003cb\u003e`), document("b "), part("text", "c"), part("reasoning", ""), part("text", "d")},
		},
		"arguments": {
			[]record.Part{
				call(`{"path": "a.txt","text":"x\"<private>secret</private>\u00e9","n":1.0}`), call(`{"text":"\u003cPRIVATE\u003esecret","path":"b"}`),
				call(`{"text":"<b>no mark</b>"}`), call(`*** Add File <private>secret`), call(`{"text":"a \u003cprivate\u003esecr`), call(`{"<private>secret":["<private>secret"]}`),
			},
			[]record.Part{
				call(`{"path": "a.txt","text":"x\" é","n":1.0}`), call(`{"text":"","path":"b"}`),
				call(`{"text":"<b>no mark</b>"}`), call(`*** Add File `), call(`{"text":"a `), call(`{"":[""]}`),
			},
		},
	} {
		role := "user"
		if name == "a result of several parts" {
			role = "tool"
		}
		messages := []record.Message{{Role: role, Parts: row.said}, {Role: "user", Parts: []record.Part{part("text", "the next message")}}}
		conversation.Withhold(messages)
		if diff := cmp.Diff(row.kept, messages[0].Parts); diff != "" || messages[1].Parts[0].Text != "the next message" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Turns that were digested by an earlier version still have it on disk.
func TestPrivateTextOfAnOlderTurnIsNotRead(t *testing.T) {
	c := newConversation(t)
	id, session := c.exchange(say("question"), record.OutcomeComplete, "answer")
	c.settle()
	at, value := turnValue(t, c.s, id)
	exchange, _ := kv.ParseExchangeID(id)
	turn, err := record.DecodeTurn(value, exchange, nil)
	if err != nil {
		t.Fatal(err)
	}
	turn.Messages = []record.Message{{Role: "user", Parts: []record.Part{{Kind: "text", Text: "said <private>secret"}}}}
	turn.Answer = []record.Message{{Role: "assistant", Parts: []record.Part{{Kind: "text", Text: "answered <private>secret"}}}}
	damage(t, c.s, at, record.EncodeTurn(turn))
	if got := c.timeline(session); strings.Contains(got, "secret") || !strings.Contains(got, "said") || !strings.Contains(got, "answered") {
		t.Errorf("the timeline is %s", got)
	}
}
