package recall_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestWordsThatStandTogetherByChanceAreNotQuoted(t *testing.T) {
	m := openMemory(t)
	say := func(session, asked string, answer ...record.Part) {
		var said []record.Message
		if len(answer) > 0 {
			said = []record.Message{message("assistant", answer...)}
		}
		m.say(session, []record.Message{message("user", words(asked))}, said)
	}
	say("regions", "Which regions is the cluster deployed in, and who watches it at night?", words("In Frankfurt and Osaka; the rotation of the platform team."))
	say("license", "Compare the licenses of both PDF renderers.", words("One is AGPL, the other one Apache."))
	say("backups", "Write down how backups work.", words("Backups run at two. "+strings.Repeat("The page has one more paragraph about something else. ", 12)+"Tenants are restored by hand."))
	say("asked before", "Where are avatars of visitors stored?", record.Part{Kind: "call", Name: "bash", CallID: "c1", Arguments: `{"command":"ls"}`})
	m.wait()
	for _, of := range []struct{ question, said, why string }{
		{"which regions is the cluster deployed in?", "Osaka", "all of its words"},
		{"which regions is the cluster deployed in, and does Terraform watch it at night?", "Osaka", "five of six words"},
		{"which regions is the cluster deployed in by Terraform?", "", "three of four words, and nothing is known of the fourth"},
		{"which licenses does the cluster need in both regions?", "", "two of four words in each of two records"},
		{"who pays the licenses of renderers?", "", "two of three words"},
		{"how are tenants in backups encrypted?", "", "words far apart in an answer"},
		{"where are avatars of visitors stored?", "", "the question alone, which had no answer"},
	} {
		r := m.Recall(context.Background(), &recall.Query{Account: "acme", Prompt: of.question, Project: directory})
		if of.said == "" && r.Text != "" || !strings.Contains(r.Text, of.said) {
			t.Errorf("%s (%s): got %q, wanted %q", of.question, of.why, r.Text, of.said)
		}
	}
}
