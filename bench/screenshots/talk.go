package main

import (
	"encoding/json"
	"strings"
)

// talk is a conversation of a made-up agent, which knows three tools.
type talk struct {
	name    string
	speaks  speaker
	model   string
	agent   string // User-Agent
	project string
	system  string
	header  map[string]string
	turns   []turn
	remarks object // what its user says of the session afterwards
}

// turn is what the user asks, what the model does about it, and what comes of that.
type turn struct {
	asks   string
	woven  string // what the client puts before the question on its own
	chart  []int  // shown beside the question of a chat, as a picture
	back   int    // how many turns its user goes back before asking
	system string // in place of the conversation's, from here on
	steps  []step
}

// step is one answer of the model. A call has a result.
type step struct {
	parts  []string // directives of package provider
	result string
	failed bool
}

func say(text string) step { return step{parts: []string{"text " + quoted(text)}} }

func fail(directive string) step { return step{parts: []string{directive}} }

func call(says, tool string, args map[string]string, result string) step {
	s := step{result: result, failed: strings.HasPrefix(result, "Error")}
	if says != "" {
		s.parts = append(s.parts, "text "+quoted(says))
	}
	s.parts = append(s.parts, "call "+tool+" "+quoted(args))
	return s
}

// content is the question as chat clients send it.
func (t *turn) content() any {
	if t.woven != "" {
		return []any{object{"type": "text", "text": t.woven}, object{"type": "text", "text": t.asks}}
	}
	if t.chart == nil {
		return t.asks
	}
	picture, err := drawn(t.chart)
	if err != nil {
		panic(err)
	}
	return []any{object{"type": "text", "text": t.asks}, object{"type": "image_url", "image_url": object{"url": picture}}}
}

func (t *turn) script() string {
	answers := make([]string, len(t.steps))
	for i, s := range t.steps {
		answers[i] = strings.Join(append(s.parts, "delay 4ms first=150ms", "USAGE"), " ; ")
	}
	return strings.Join(answers, " ; then ; ")
}

func quoted(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}

const instructions = "You are a careful engineer at a terminal. Read before you change, run the tests, and say in a few words what you did.\n" +
	"Working directory: "

const reminder = "<system-reminder>\nThe list of things to do is empty. Keep one where a task has several steps. The user need not hear of this.\n</system-reminder>"

const sessionOfDeploy = "5f0c1c1e-0a5b-4b8e-9d55-3b7c9f5a0001"

var talks = []talk{
	{
		name: "question", speaks: speakChat, model: "gpt-4.1", agent: "OpenAI/Python 2.11.0", project: "reports", system: "Answer in SQL where you can.",
		turns: []turn{
			{asks: "Which customers ordered in October but not in November?", chart: []int{31, 44, 52, 29, 61, 58, 22, 35, 47, 12, 19, 26}, steps: []step{say("```sql\nSELECT customer_id FROM orders\nGROUP BY customer_id\nHAVING bool_or(date_trunc('month', placed) = '2026-10-01')\n   AND NOT bool_or(date_trunc('month', placed) = '2026-11-01');\n```\n\n`bool_or` reads the table **once**.")}},
			{asks: "And how many of them are there by country?", steps: []step{say("Join `customers` and count:\n\n```sql\nSELECT c.country, count(*) FROM customers c JOIN gone g USING (customer_id)\nGROUP BY c.country;\n```")}},
			{asks: "And how many of them came in 2025 already?", back: 1, steps: []step{say("Wrap it and join `customers`:\n\n```sql\nSELECT count(*) FROM customers c JOIN gone g USING (customer_id)\nWHERE c.since < '2026-01-01';\n```")}},
		},
	},
	{
		name: "watcher", speaks: speakResponses, model: "gpt-5.5", agent: "codex_cli_rs/0.98.0 (Linux; x86_64)", project: "/home/dev/mneme", system: instructions + "/home/dev/mneme",
		turns: []turn{
			{asks: "TestWatcherSeesARename in pkg/watch fails about once in fifty runs. Find out why and mend it.", steps: []step{
				call("I run it until it fails.", "shell", map[string]string{"command": "go test ./pkg/watch -run TestWatcherSeesARename -count 200"}, "--- FAIL: TestWatcherSeesARename (0.02s)\n    watch_test.go:61: no event within 10ms\nFAIL\nexit status 1"),
				call("The test waits 10 ms by the clock.", "read", map[string]string{"path": "pkg/watch/watch_test.go"}, "57\tos.Rename(a, b)\n58\tselect {\n59\tcase e := <-w.Events:\n60\t\tcheck(t, e)\n61\tcase <-time.After(10 * time.Millisecond):\n62\t\tt.Fatal(\"no event within 10ms\")\n63\t}"),
				call("", "edit", map[string]string{"path": "pkg/watch/watch_test.go", "old_string": "case <-time.After(10 * time.Millisecond):\n\tt.Fatal(\"no event within 10ms\")", "new_string": "case <-t.Context().Done():\n\tt.Fatal(\"no event before the test's deadline\")"}, "The file was changed."),
				call("", "shell", map[string]string{"command": "go test ./pkg/watch -run TestWatcherSeesARename -count 500"}, "ok  \texample.org/mneme/pkg/watch\t4.411s"),
				say("The test asserted that an event comes **within 10 ms**. Under load it takes longer; nothing is wrong with the watcher. It now waits until the deadline of the test: 500 runs pass."),
			}},
			{asks: "Are there more tests that wait by the clock?", steps: []step{
				call("", "shell", map[string]string{"command": "grep -rn 'time.After(' --include=*_test.go pkg | wc -l"}, "3"),
				say("Three more, all in `pkg/lock`. They wait for a second and none has failed in 500 runs; I left them."),
			}},
		},
	},
	{
		name: "deploy", speaks: speakMessages, model: "claude-opus-4-8", agent: "claude-cli/2.1.44 (external, cli)", project: "/home/dev/infra", system: instructions + "/home/dev/infra\nToday's date: 2026-11-20",
		header: map[string]string{"X-Claude-Code-Session-Id": sessionOfDeploy},
		turns: []turn{
			{woven: reminder, asks: "Deploy fails on staging. Find out why and mend it.", steps: []step{
				call("I run the script as the pipeline does.", "shell", map[string]string{"command": "./deploy.sh staging --wait"}, "Error: exit status 1\nhelm upgrade failed: another operation is in progress\nwaiting for the webhook: tls: failed to verify certificate: x509: certificate has expired\nhint: certificate expired 2026-11-19 23:59:59"),
				call("The certificate of the webhook expired yesterday. I look which secret it comes from.", "read", map[string]string{"path": "deploy/tls.yaml"}, "1\tapiVersion: v1\n2\tkind: Webhook\n3\tspec:\n4\t  secret: webhook-2025\n5\t  namespace: staging"),
				call("", "shell", map[string]string{"command": "kubectl -n staging get secrets | grep webhook"}, "webhook-2025   kubernetes.io/tls   2   396d\nwebhook-2026   kubernetes.io/tls   2   12d"),
				call("The renewed one is there and nobody uses it.", "edit", map[string]string{"path": "deploy/tls.yaml", "old_string": "  secret: webhook-2025", "new_string": "  # renewed by cert-manager; the name has the year in it\n  secret: webhook-2026"}, "The file was changed."),
				call("", "shell", map[string]string{"command": "./deploy.sh staging --wait"}, "release upgraded in 41s\n14 of 14 pods are ready"),
				say("Staging is up again.\n\n- **Why**: the webhook's certificate, `webhook-2025`, expired on 19 November. Its successor `webhook-2026` was there for twelve days, and nothing used it.\n- **What I changed**: one line of `deploy/tls.yaml`.\n- **What is left**: production names `webhook-2025` too, and fails at its next deploy."),
			}},
			{asks: "Do the same for production, but only show me the change.", system: instructions + "/home/dev/infra\nToday's date: 2026-11-21", steps: []step{
				call("", "read", map[string]string{"path": "deploy/production/tls.yaml"}, "1\tapiVersion: v1\n2\tkind: Webhook\n3\tspec:\n4\t  secret: webhook-2025\n5\t  namespace: production"),
				say("```diff\n-  secret: webhook-2025\n+  secret: webhook-2026\n```\n\nThe secret exists in `production` since 8 November. I changed nothing."),
			}},
		},
		remarks: object{"tags": []string{"good"}, "note": "Production names webhook-2025 too: change it before its next deploy."},
	},
	{
		name: "subagent", speaks: speakMessages, model: "claude-haiku-4-5", agent: "claude-cli/2.1.44 (external, cli)", project: "/home/dev/infra", system: "You search a repository for another agent and answer with paths.\nWorking directory: /home/dev/infra",
		header: map[string]string{"X-Claude-Code-Session-Id": sessionOfDeploy, "X-Claude-Code-Agent-Id": "explore-1"},
		turns: []turn{{asks: "List every file that names the secret webhook-2025.", steps: []step{
			call("", "shell", map[string]string{"command": "grep -rln webhook-2025 ."}, "./deploy/tls.yaml\n./deploy/production/tls.yaml\n./docs/runbook.md"),
			say("Three files: `deploy/tls.yaml`, `deploy/production/tls.yaml`, `docs/runbook.md`."),
		}}},
	},
	{
		name: "review", speaks: speakMessages, model: "gpt-5.5", agent: "claude-cli/2.1.44 (external, cli)", project: "/home/dev/shop", system: instructions + "/home/dev/shop",
		header: map[string]string{"X-Claude-Code-Session-Id": "5f0c1c1e-0a5b-4b8e-9d55-3b7c9f5a0002"},
		turns: []turn{{asks: "Review the last commit: is the discount applied twice?", steps: []step{
			call("", "shell", map[string]string{"command": "git show --stat HEAD"}, " cart/total.go      | 9 ++++++---\n cart/total_test.go | 14 ++++++++++++++\n 2 files changed"),
			say("No. `Total` applies it to the subtotal, and `Checkout` takes the total as it is. The new test covers an empty cart, but not **two** discounts at once."),
		}}},
	},
	{
		name: "overloaded", speaks: speakMessages, model: "claude-opus-4-8", agent: "claude-cli/2.1.44 (external, cli)", project: "/home/dev/shop", system: instructions + "/home/dev/shop",
		header: map[string]string{"X-Claude-Code-Session-Id": "5f0c1c1e-0a5b-4b8e-9d55-3b7c9f5a0003"},
		turns:  []turn{{asks: "Add a test for two discounts at once.", steps: []step{fail("error overloaded")}}},
	},
}
