package work

import (
	"fmt"
	"strings"
)

// quiet is a directory in which nothing was done but chores: what is asked about the matters of the others is not on record there.
const quiet = "quarry"

// absences are questions that a developer types about what is on record nowhere, with words that are on record.
var absences = []string{
	"which port does the search service listen on?", "how do we rotate the signing keys of the gateway?", "why did we move the invoices to another region?",
	"what is the memory limit of the workers in production?", "did we ever turn on HTTP/3 for the gateway?", "who approved the schema of the orders database?",
	"how many replicas does the importer run with?", "what did we decide about dark mode in the frontend?", "where are the credentials of the payment provider rotated?",
	"how do I debug the mailer on my laptop?", "why is the sales report sent as XLSX?", "which license do we use for the PDF renderer?",
	"what was the outcome of the load test of the checkout?", "how did we translate the frontend into Polish?", "when do the backups get moved to cold storage?",
	"which timezone does the calendar use?", "what is the maximum length of a customer's name?", "how did we fix the memory leak in the importer?",
	"did we decide on a color scheme for the price lists?", "why do the browser tests need a proxy?", "which regions is the cluster deployed in?",
	"how do we anonymize the audit trail for GDPR?", "what was wrong with the barcode scanner in the warehouse?", "where do we store the avatars of users?",
	"how long are refresh tokens of {name} valid?", "what alerting threshold did we set for {name}?", "does {name} support multipart uploads?", "who owns the {name} dashboard?",
	"why was {name} rewritten in Rust?", "what is the budget for {name} this quarter?", "how do we seed the database of {name} for demos?", "which cron expression runs {name}?",
	"what did we do about the N+1 queries in {x}?", "how is rate limiting of {x} configured?", "why did we roll back the release of {x}?", "which team is responsible for {x}?",
	"what was the incident with {x} on Black Friday?", "did we write an ADR about {x}?", "what are the SLOs of {x}?", "how do we mock {x} in unit tests?",
	"which encryption is used for {x}?", "what is the Grafana dashboard of {x}?", "how did we shrink the image of {x}?", "why does {x} use so much CPU?",
	"what did the security audit say about {x}?", "where is the runbook of {x}?", "how do we version the API of {x}?", "did {x} ever lose data?",
	"what is the cache TTL for {x}?", "how did we tune the garbage collector of {x}?", "which webhooks does {x} send to customers?", "what do we pay for {x} a month?",
	"how do I restore a single tenant from the backups?", "what did we decide about the mobile app?", "which linter rules did we disable and why?",
	"how are translations of error messages loaded?", "what did the customer complain about in March?", "which tests do we skip on Windows?",
	"how do we sign the release binaries?", "what is the password policy for admins?", "why did we fork the markdown library?", "how do we shard the session store?",
	"what happened to the Kubernetes upgrade?", "when does the contract with the payment provider end?", "is there a way to export the price lists as JSON?",
	"what did we agree on with the designers about the checkout?", "how was the deadlock in the orders database resolved?", "what are the required fields of an order?",
	"which browser versions does the frontend support?", "why do uploads need a captcha?", "how does single sign-on work in the new frontend?", "what does the nightly export cost in traffic?",
}

// absent are the questions of a project that nothing on record answers.
func (g *generator) absent(directory string) {
	for _, text := range absences {
		fill := strings.NewReplacer("{x}", g.pick(topics), "{name}", g.known(directory))
		g.Absent = append(g.Absent, Question{Kind: "never", Project: directory, Text: fill.Replace(text)})
	}
}

// known is a name that a project has talked about.
func (g *generator) known(directory string) string {
	for range 1000 {
		s := &g.Sessions[g.random.IntN(len(g.Sessions))]
		if name := s.name; s.Project == directory && name != "" {
			return name
		}
	}
	return g.word()
}

// quietProject has chores only, and is asked about the matters of the others.
func (g *generator) quietProject(directory string, sessions int) {
	for i := range sessions {
		s := Session{Project: directory, Began: g.day(i, sessions)}
		for range 1 + g.random.IntN(4) {
			s.Rounds = append(s.Rounds, g.chore())
		}
		g.Sessions = append(g.Sessions, s)
	}
	for i := range allMatters {
		m := &allMatters[i]
		if m.kind == "date" || m.kind == "error" {
			continue // a date alone, or an error that another project has met, may be answered
		}
		a, b := "", ""
		if len(m.alternatives) > 0 {
			a, b = m.alternatives[0], m.alternatives[1]
		}
		fill := strings.NewReplacer("{name}", g.word(), "{other}", g.word(), "{a}", a, "{b}", b, "{n}", fmt.Sprint(12+g.random.IntN(900)))
		for _, text := range m.later {
			g.Absent = append(g.Absent, Question{Kind: "elsewhere", Project: directory, Text: fill.Replace(text)})
		}
	}
}
