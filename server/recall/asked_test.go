package recall_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

func (m *memory) asks(prompt string) recall.Recalled {
	m.t.Helper()
	return m.Recall(m.t.Context(), &recall.Query{Account: "acme", Prompt: prompt, Project: directory, Asked: true})
}

// An answer often says only that something is done: the command says how. Every exchange of which something is quoted is named, so that
// the text disappears when that one is erased.
func TestTheCommandsOfARoundAreQuotedWithTheirExchanges(t *testing.T) {
	m := openMemory(t)
	a := &agent{memory: m, session: "monday"}
	asked := a.ask("Restart the quokka workers.", a.call("Bash", asJSON(map[string]string{"command": "grep -rn quokka ."}), "deploy.yaml", false))
	ran := a.step(a.call("Bash", asJSON(map[string]string{"command": "kubectl rollout restart deployment/quokka -n stage-7"}), "restarted", false))
	answered := a.step(words("They are restarted."))
	m.wait()
	for _, unasked := range []bool{false, true} {
		r := m.Recall(t.Context(), &recall.Query{Account: "acme", Prompt: "how did we restart the quokka workers", Project: directory, Asked: !unasked})
		if !strings.Contains(r.Text, `ran: "kubectl rollout restart deployment/quokka -n stage-7"`) || strings.Contains(r.Text, "grep -rn") {
			t.Fatalf("recalled is %s", r.Text)
		}
		if quoted := r.Hits[0].Exchanges(); !slices.Equal(quoted, []string{asked, answered, ran}) {
			t.Errorf("quoted are %v, want %v", quoted, []string{asked, answered, ran})
		}
	}
}

func TestOfARoundWithoutAnEndTheExchangeOfTheLastWordsIsNamed(t *testing.T) {
	m := openMemory(t)
	a := &agent{memory: m, session: "monday"}
	a.ask("Look into the quokka cache.", a.call("Bash", asJSON(map[string]string{"command": "make cache"}), "ok", false))
	said := a.step(words("The quokka cache misses because of its salt."), a.call("Bash", asJSON(map[string]string{"command": "make salt"}), "ok", false))
	m.wait()
	r := m.asks("why does the quokka cache miss")
	if !strings.Contains(r.Text, "because of its salt") || !slices.Contains(r.Hits[0].Exchanges(), said) {
		t.Errorf("%v are named of %s", r.Hits, r.Text)
	}
}

func TestTheExchangesOfASolutionAreNamed(t *testing.T) {
	m := openMemory(t)
	a := &agent{memory: m, session: "monday"}
	a.ask("Build it.", a.call("Bash", asJSON(map[string]string{"command": "make release"}), "Exit code 2\nld: error: undefined symbol: quokka_init", true))
	a.step(words("The order is wrong."), a.call("Read", asJSON(map[string]string{"file_path": directory + "/link.mk"}), "a", false))
	a.step(a.call("Edit", asJSON(map[string]string{"file_path": directory + "/link.mk", "old_string": "a", "new_string": "b"}), "The file was updated.", false))
	a.step(words("The library comes last now."), a.call("Bash", asJSON(map[string]string{"command": "make release"}), "ok", false))
	a.step(words("It is built."))
	m.wait()
	r := m.asks("ld: error: undefined symbol: quokka_init")
	page := m.timeline("monday")
	for want, at := range map[string]int{"failed before": 1, `edited: "/home/ann/shop/link.mk"`: 2, `passed later: "make release"`: 4, `"make release"`: 0, `said: "It is built."`: 4} {
		if !strings.Contains(r.Text, want) || !slices.ContainsFunc(r.Hits, func(h recall.Hit) bool { return h.Solved == page[4] && slices.Contains(h.Exchanges(), page[at]) }) {
			t.Errorf("%q, or its exchange %s of %v, is not in %+v: %s", want, page[at], page, r.Hits, r.Text)
		}
	}
}

// What is asked for is found however old it is; unasked, old records are left alone.
func TestWhatIsAskedForMayBeOld(t *testing.T) {
	m := openMemory(t)
	(&agent{memory: m, session: "monday"}).ask("Which queue do we take for the quokka notifications?", words("We take NATS for the quokka notifications."))
	m.wait()
	later := recall.New(recall.Over(m.engine), recall.Options{Deadline: time.Minute, Clock: func() time.Time { return time.Now().AddDate(1, 0, 0) }})
	for _, asked := range []bool{true, false} {
		r := later.Recall(t.Context(), &recall.Query{Account: "acme", Prompt: "which queue do we take for the quokka notifications", Project: directory, Asked: asked})
		if strings.Contains(r.Text, "NATS") != asked {
			t.Errorf("asked %v: %q, %s", asked, r.Text, r.Reason)
		}
	}
}

func TestWhatWasDoneInAPeriodOrLastIsRecalledWithoutOtherWords(t *testing.T) {
	m := openMemory(t)
	(&agent{memory: m, session: "monday"}).ask("Split the quokka mailer.", words("The quokka mailer is two services."))
	m.wait()
	for _, prompt := range []string{"what did we do today?", "what was done on " + time.Now().Format(time.DateOnly) + "?", "what did we do here?"} {
		if r := m.asks(prompt); !strings.Contains(r.Text, "two services") {
			t.Errorf("%q: %q, %s", prompt, r.Text, r.Reason)
		}
	}
	if r := m.asks("what did we do on 2019-01-01?"); r.Text != "" {
		t.Errorf("of a day without work: %s", r.Text)
	}
}

// Where much was said about a subject, a question about a decision is answered by what was decided, and not with what all answers say.
func TestADecisionIsFoundAmongMuchThatWasSaid(t *testing.T) {
	m := openMemory(t)
	for n := range 30 {
		a := &agent{memory: m, session: strings.Repeat("x", n+1)}
		a.ask("Run the tests of the logging again.", words(strings.Repeat("I looked at the logging of the last days. The documentation is up to date. ", 20)+"All tests of the logging pass."))
	}
	(&agent{memory: m, session: "monday"}).ask("Clean up, there are three libraries.", words(strings.Repeat("I looked at the logging of the last days. The documentation is up to date. ", 20)+
		"We decided to use quokkalog for logging. "+strings.Repeat("The documentation is up to date. ", 20)))
	m.wait()
	r := m.asks("what did we decide about logging")
	if !strings.Contains(r.Text, "quokkalog") {
		t.Errorf("the decision is not in %s", r.Text)
	}
	if times := strings.Count(r.Text, "The documentation is up to date."); times > 1 {
		t.Errorf("one sentence is quoted %d times: %s", times, r.Text)
	}
}

// stale is an engine whose listings lack what was said a moment ago, which its searches find.
type stale struct{ recall.Engine }

func (e stale) Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error) {
	if r.Newest {
		return new(search.Answer), nil
	}
	return e.Engine.Search(ctx, account, r)
}

// An agent is not given its own question, not even if that is indexed while it asks; other keys are, and it is once the round has ended.
func TestAQuestionThatIsIndexedWhileItIsAskedIsNotItsOwnAnswer(t *testing.T) {
	m := openMemory(t)
	say := func(answer record.Part) {
		body := asJSON(script{[]record.Message{message("user", words("Why does the quokka cache miss?"))}, []record.Message{message("assistant", answer)}})
		m.capture(&record.Opening{NativeSession: "monday", Project: directory, KeyID: "key-1", Body: []byte(body)}, nil)
		m.wait()
	}
	late := recall.New(stale{recall.Over(m.engine)}, recall.Options{Deadline: time.Minute})
	ask := func(key string) string {
		return late.Recall(t.Context(), &recall.Query{Account: "acme", Prompt: "why does the quokka cache miss", Project: directory, Key: key, Asked: true}).Text
	}
	say(record.Part{Kind: "call", CallID: "1", Name: "memory_recall", Arguments: "{}"})
	if text := ask("key-1"); text != "" {
		t.Errorf("the agent that asks is given %s", text)
	}
	if text := ask("key-2"); text == "" {
		t.Error("another agent is given nothing")
	}
	say(words("Because of its salt."))
	if text := ask("key-1"); text == "" {
		t.Error("nothing is given after the end of the round")
	}
}
