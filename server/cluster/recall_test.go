package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/cluster/clustertest"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
)

// What edges have recorded is recalled at the centre: by its account alone, in its project, not by the conversation that
// said it, not once it is too old, and not after it is erased.
func TestTheCentreRecallsWhatItsEdgesRecord(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		c := open(t)
		m := clustertest.Over(t, c)
		said := sayAt(t, m, "first", "Why does the writer hang?", "ErrLockTimeout comes up while the lease of the journal is held.")
		sayAt(t, m, "second", "How do I bake sourdough bread?", "With flour, in the fridge.") // beside which the words are rare
		if err := m.Wait(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		memory := recall.New(c.Recall, recall.Options{Deadline: time.Minute})
		asked := recall.Query{Account: "acme", Project: "/home/ann/store", Prompt: "what about ErrLockTimeout"}
		got := memory.Recall(t.Context(), &asked)
		if len(got.Hits) != 1 || got.Hits[0].Exchange != said.ID || !strings.Contains(got.Text, "lease of the journal") {
			t.Fatalf("%+v is recalled, want the answer of %s", got, said.ID)
		}
		silent := func(what string, memory *recall.Memory, q recall.Query) {
			t.Helper()
			if got := memory.Recall(t.Context(), &q); got.Text != "" || got.Reason == recall.ReasonFailed || got.Reason == recall.ReasonDeadline {
				t.Errorf("%s: %+v is recalled", what, got)
			}
		}
		foreign, elsewhere, bySession, byKey := asked, asked, asked, asked
		foreign.Account, elsewhere.Project, bySession.Session, byKey.Session = "globex", "/home/ann/other", said.Session, "first"
		silent("to another account", memory, foreign)
		silent("in another project", memory, elsewhere)
		silent("to its own session", memory, bySession)
		silent("to its own session, by the client's id", memory, byKey)
		late := func() time.Time { return time.Now().Add(48 * time.Hour) }
		silent("too late", recall.New(c.Recall, recall.Options{Deadline: time.Minute, Age: 24 * time.Hour, Clock: late}), asked)
		if digest := memory.Digest(t.Context(), &recall.Query{Account: "acme", Project: asked.Project}); !strings.Contains(digest.Text, "writer hang") {
			t.Errorf("of the project %+v is told", digest)
		}

		receipt, err := m.Erase(t.Context(), "acme", record.Selection{Exchanges: []string{said.ID}}, false)
		for deadline := time.Now().Add(time.Minute); err == nil && receipt.State != record.ErasureDone; time.Sleep(5 * time.Millisecond) {
			if receipt, err = m.Erasure("acme", receipt.ID); time.Now().After(deadline) {
				t.Fatalf("the erasure does not end: %+v", receipt)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		silent("what is erased", memory, asked)
	})
}

// A conversation that has said the words of its question many times itself is told what another one has said of them.
func TestTheCentreRecallsBesideWhatTheSessionSaysItself(t *testing.T) {
	c := centres["Postgres"](t, nil)(t)
	m := clustertest.Over(t, c)
	said := sayAt(t, m, "first", "Why does the writer hang?", "ErrLockTimeout comes up while the lease of the journal is held, and then it goes away by itself.")
	for n := range 60 {
		sayAt(t, m, "asking", fmt.Sprint("ErrLockTimeout, ErrLockTimeout number ", n), "what about it?")
	}
	if err := m.Wait(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	memory := recall.New(c.Recall, recall.Options{Deadline: time.Minute})
	got := memory.Recall(t.Context(), &recall.Query{Account: "acme", Project: "/home/ann/store", Session: "asking", Prompt: "what about ErrLockTimeout"})
	if len(got.Hits) != 1 || got.Hits[0].Exchange != said.ID {
		t.Errorf("%+v is recalled, want %s", got, said.ID)
	}
}

// sayAt has an edge record a turn in a project.
func sayAt(t *testing.T, m *clustertest.Memory, chatKey, asked, answered string) *record.ExchangeInfo {
	t.Helper()
	r, err := m.Begin(t.Context(), &record.Opening{
		Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: chatKey, ContentType: "application/json",
		Project: "/home/ann/store", Body: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, asked),
	})
	if err == nil {
		_, err = r.Write(fmt.Appendf(nil, `{"choices":[{"message":{"role":"assistant","content":%q}}]}`, answered))
	}
	if err == nil {
		err = r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200})
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := m.ExchangeInfo("acme", r.ID())
	if err != nil {
		t.Fatal(err)
	}
	return info
}
