package recall

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Quote is a verbatim quotation of a person or a model.
type Quote struct {
	Exchange string `json:"exchange_id"`
	Role     string `json:"role,omitempty"` // user or assistant
	Text     string `json:"text"`
	Rejected bool   `json:"rejected,omitempty"` // it says what is not to be done
}

// Run is a command or another call, with its last result.
type Run struct {
	Exchange string `json:"exchange_id"` // of the result
	Command  string `json:"command"`
	Failed   bool   `json:"failed,omitempty"`
	Exit     int    `json:"exit_code,omitempty"` // where it is noted
	Line     string `json:"line,omitempty"`      // that reports the failure, or the first one
	called   string // the exchange of the call, which has the command
	shell    bool
}

// past collects what turns say and do. They are added newest first, of one session or of several.
type past struct {
	asked     []Quote // the person's words, one quote a round
	decisions []Quote
	runs      []Run
	edited    []Quote        // files
	at        map[string]int // place in runs, by the call
	results   map[string]Run // whose calls are older, by call id
	left      []Quote
	planned   bool              // left is from the last plan
	tasks     map[string]string // status of Claude Code's tasks

	summary    string // the client's last one, in place of earlier messages
	summarized string // the exchange that asked for a later one
}

func newPast() *past {
	return &past{at: make(map[string]int), results: make(map[string]Run), tasks: make(map[string]string)}
}

// mostCollected bounds each list of a past.
const mostCollected = 400

func (p *past) add(e *record.TimelineEntry) {
	if e.Turn == nil || e.Exchange.Auxiliary != "" {
		return
	}
	for _, list := range [][]record.Message{e.Turn.Answer, e.Turn.Messages} {
		for i := len(list) - 1; i >= 0; i-- {
			for j := len(list[i].Parts) - 1; j >= 0; j-- {
				p.part(e.Exchange.ID, list[i].Role, &list[i].Parts[j])
			}
		}
	}
	if asked := search.Asked(e.Turn); asked != "" {
		p.asked = append(p.asked[:min(len(p.asked), mostCollected-1)], // the first words stay the last of the list
			Quote{Exchange: e.Exchange.ID, Role: "user", Text: asked})
	}
}

func (p *past) part(exchange, role string, part *record.Part) {
	switch part.Kind {
	case "result":
		line, failed := search.Failure(part)
		if line == "" {
			line = search.FirstSentence(part.Text)
		}
		code, _ := search.ExitCode(part.Text)
		p.results[cmp.Or(part.CallID, part.Name)] = Run{Exchange: exchange, Command: part.Name, Failed: failed, Exit: code, Line: line}
	case "call":
		p.call(exchange, part)
	case "text":
		if role == "user" && chatkey.IsSummary(part.Text) && p.summarized == "" {
			p.summary = cmp.Or(p.summary, part.Text)
		}
		p.decided(exchange, role, part.Text)
	}
}

// decided adds the decisions of a text as one quote.
func (p *past) decided(exchange, role, text string) {
	if len(p.decisions) == mostCollected {
		return
	}
	q := Quote{Exchange: exchange, Role: role}
	var b strings.Builder
	for _, d := range decisionsIn(role, text) {
		if b.Len() > 0 {
			b.WriteString(" ")
		}
		b.WriteString(d.Text)
		q.Rejected = q.Rejected || d.Rejected
	}
	q.Text = lexical.Cut(b.String(), maxDecided)
	if q.Text != "" && !slices.ContainsFunc(p.decisions, func(known Quote) bool { return known.Text == q.Text }) {
		p.decisions = append(p.decisions, q)
	}
}

// maxDecided bounds the decisions of one text, in bytes.
const maxDecided = 1000

// call adds a call with the result that was seen before, unless a later one of the same is known.
func (p *past) call(exchange string, part *record.Part) {
	id := cmp.Or(part.CallID, part.Name) // some providers give calls no ids
	result, answered := p.results[id]
	delete(p.results, id)
	if !p.planned {
		p.plan(exchange, part, &result)
	}
	if files, edits := search.Files(part); edits && !(answered && result.Failed) {
		for _, file := range slices.Backward(files) {
			if len(p.edited) < mostCollected && !slices.ContainsFunc(p.edited, func(known Quote) bool { return known.Text == file }) {
				p.edited = append(p.edited, Quote{Exchange: exchange, Text: file})
			}
		}
	}
	if !answered || len(p.runs) == mostCollected {
		return
	}
	command := search.Command(part)
	result.shell = command != ""
	identity := search.SameCommand(command)
	if !result.shell {
		command = part.Name
		identity = part.Name + part.Arguments + part.Text
	}
	if _, later := p.at[identity]; !later {
		p.at[identity] = len(p.runs)
		result.Command, result.called = command, exchange
		p.runs = append(p.runs, result)
	}
}

// failures returns the lines of what failed last, the last ones first.
func (p *past) failures() (lines []string) {
	for _, run := range p.runs {
		if run.Failed {
			lines = append(lines, cmp.Or(run.Line, "failed"))
		}
	}
	return lines
}

// taskNumber is in the result of Claude Code's TaskCreate.
var taskNumber = regexp.MustCompile(`#(\d+)`)

// plan takes the open steps of the last plan: a list of Claude Code, opencode or Codex, or the tasks that Claude Code makes and
// changes one by one.
func (p *past) plan(exchange string, part *record.Part, result *Run) {
	switch part.Name {
	case "TaskUpdate":
		var task struct {
			ID     string `json:"taskId"`
			Status string `json:"status"`
		}
		if json.Unmarshal([]byte(part.Arguments), &task) == nil && task.Status != "" && p.tasks[task.ID] == "" {
			p.tasks[task.ID] = task.Status
		}
	case "TaskCreate":
		var task struct {
			Subject string `json:"subject"`
		}
		number := taskNumber.FindStringSubmatch(result.Line)
		if json.Unmarshal([]byte(part.Arguments), &task) == nil && task.Subject != "" && number != nil && isOpen(p.tasks[number[1]]) && len(p.left) < mostCollected {
			p.left = append([]Quote{{Exchange: exchange, Text: task.Subject}}, p.left...)
		}
	case "TodoWrite", "todowrite", "update_plan":
		var plan struct {
			Todos []struct{ Content, Status string } `json:"todos"`
			Plan  []struct{ Step, Status string }    `json:"plan"`
		}
		if json.Unmarshal([]byte(part.Arguments), &plan) != nil {
			return
		}
		p.planned = true
		for _, todo := range plan.Todos {
			if isOpen(todo.Status) && todo.Content != "" && len(p.left) < mostCollected {
				p.left = append(p.left, Quote{Exchange: exchange, Text: todo.Content})
			}
		}
		for _, step := range plan.Plan {
			if isOpen(step.Status) && step.Step != "" && len(p.left) < mostCollected {
				p.left = append(p.left, Quote{Exchange: exchange, Text: step.Step})
			}
		}
	}
}

func isOpen(status string) bool {
	return status != "completed" && status != "cancelled" && status != "deleted"
}
