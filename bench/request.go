package bench

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// A request is the bytes of a lane's HTTP request with places for two numbers. So no two requests are equal unless a
// lane wants that: equal requests would cost a memory nothing.
type request struct {
	bytes         []byte
	conversations []int  // offsets of the conversation's number, in the opening
	turns         int    // requests per conversation
	steps         []step // what the requests of a conversation add to it; all but those of sessions replace the only one

	length int          // of a session: the offset of the body's length; 0: the length of all requests is that of bytes
	filled [3]int       // of a session: the seed, the conversation and the number of steps that are in bytes
	sent   bytes.Buffer // of a session: the newest request
}

// step is the places of a request that are its own.
type step struct {
	numbers []int // offsets of the request's number, in its prompt
	fresh   []int // offsets of the words that no other request has
	end     int   // of a session: where the messages of the request end
}

const (
	conversationMark = "#conversation#"
	numberMark       = "#thenumberis##" // as long
	markDigits       = len(conversationMark)

	freshMark = "#aword# "
	endMark   = "#end#" // of a session: between what two requests add
)

// agentTurns is how many requests of an agent share their opening, like the turns of a session.
const agentTurns = 20

// newRequest renders a lane's request for a host. header has additional lines for the head, each with its line end.
func newRequest(l *lane, host, header string) *request {
	parts := strings.Split(l.body(), endMark)
	body := strings.Join(parts, "")
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nUser-Agent: mneme-bench\r\nAccept: */*\r\n",
		l.path(), host, header)
	if l.surface == codec.Messages {
		b.WriteString("Anthropic-Version: 2023-06-01\r\n")
	}
	fmt.Fprintf(&b, lengthName+"%d\r\n\r\n%s", len(body), body)
	r := &request{bytes: b.Bytes(), turns: 1}
	if l.agent {
		r.turns = agentTurns
	}
	r.conversations = offsets(r.bytes, conversationMark)
	from := len(r.bytes) - len(body)
	for _, part := range parts {
		end := from + len(part)
		r.steps = append(r.steps, step{numbers: offsetsIn(r.bytes, from, end, numberMark), fresh: offsetsIn(r.bytes, from, end, freshMark), end: end})
		from = end
	}
	if l.session {
		r.steps = r.steps[:agentTurns] // what follows only ends the body
		r.length = bytes.Index(r.bytes, []byte(lengthName)) + len(lengthName)
	}
	if l.repeats {
		r.steps[0].numbers, r.turns = nil, math.MaxInt
	}
	return r
}

const lengthName = "Content-Length: "

// bearer returns the header line with a key.
func bearer(key string) string { return "Authorization: Bearer " + key + "\r\n" }

func offsets(b []byte, mark string) []int { return offsetsIn(b, 0, len(b), mark) }

func offsetsIn(b []byte, from, end int, mark string) (at []int) {
	for {
		i := bytes.Index(b[from:end], []byte(mark))
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(mark)
	}
}

// copy returns a copy for another connection.
func (r *request) copy() *request {
	return &request{bytes: bytes.Clone(r.bytes), conversations: r.conversations, turns: r.turns, steps: r.steps, length: r.length}
}

// number makes this the n-th request of the run. seed distinguishes rounds. The result is valid until the next call.
func (r *request) number(seed, n int) []byte {
	conversation, turn := n/r.turns, n%r.turns
	for _, at := range r.conversations {
		putDigits(r.bytes[at:at+markDigits], seed*1e7+conversation)
	}
	if r.length == 0 {
		r.steps[0].fill(r.bytes, seed, n)
		return r.bytes
	}
	if r.filled[0] != seed || r.filled[1] != conversation {
		r.filled = [3]int{seed, conversation, 0}
	}
	for ; r.filled[2] <= turn; r.filled[2]++ {
		r.steps[r.filled[2]].fill(r.bytes, seed, conversation*r.turns+r.filled[2])
	}
	return r.upTo(r.steps[turn].end)
}

// fill writes what is the n-th request's own.
func (s *step) fill(b []byte, seed, n int) {
	for _, at := range s.numbers {
		putDigits(b[at:at+markDigits], seed*1e7+n)
	}
	if len(s.fresh) == 0 {
		return
	}
	random := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	for _, at := range s.fresh {
		putWord(b[at:at+len(freshMark)-1], int(random.ExpFloat64()*random.ExpFloat64()*500))
	}
}

// upTo returns the request of a session whose messages end there.
func (r *request) upTo(end int) []byte {
	const rest, blank = "]}", "\r\n\r\n"
	body := r.length + bytes.Index(r.bytes[r.length:], []byte(blank)) + len(blank)
	r.sent.Reset()
	r.sent.Write(r.bytes[:r.length])
	r.sent.WriteString(strconv.Itoa(end - body + len(rest)))
	r.sent.WriteString(blank)
	r.sent.Write(r.bytes[body:end])
	r.sent.WriteString(rest)
	return r.sent.Bytes()
}

// putWord fills b with the n-th word of a language whose words all have the same length.
func putWord(b []byte, n int) {
	for i := range b {
		b[i] = "etaoinshrdlucmfwypvbgkjqxz"[n%26]
		n = n/26 + i*n%7
	}
}

func putDigits(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
}

func (l *lane) body() string {
	opening := "Conversation " + conversationMark + ". Say how things stand."
	newest := opening + " Request " + numberMark + ". [[sim: " + l.script + " ]]"
	stream := strconv.FormatBool(l.stream)
	switch {
	case l.search:
		return `{"query":"how do things stand in conversation ` + conversationMark + `","limit":10}`
	case l.agent:
		return l.agentBody()
	case l.surface == codec.Chat:
		usage := ""
		if l.stream {
			usage = `,"stream_options":{"include_usage":true}`
		}
		return `{"model":"` + l.model + `","stream":` + stream + usage +
			`,"messages":[{"role":"system","content":"You are a terse assistant."},{"role":"user","content":` + quote(newest) + `}]}`
	case l.surface == codec.Responses:
		return `{"model":"` + l.model + `","stream":` + stream + `,"store":false,"instructions":"You are a terse assistant.","input":` + quote(newest) + `}`
	case l.surface == codec.Messages:
		tools := ""
		if strings.Contains(l.script, "call ") {
			tools = `,"tools":[` + toolDeclaration("read_file", 3) + `,` + toolDeclaration("run_tests", 2) + `]`
		}
		return `{"model":"` + l.model + `","stream":` + stream + `,"max_tokens":4096,"system":"You are a terse assistant."` + tools +
			`,"messages":[{"role":"user","content":` + quote(newest) + `}]}`
	default:
		return `{"model":"` + l.model + `","encoding_format":"base64","input":` + quote(opening+" "+numberMark) + `}`
	}
}

// Sizes of an agent's request late in a session, modeled on coding agents: most of the body is results of tools.
const (
	agentTools       = 50
	agentSteps       = 30   // calls with their results
	agentResultBytes = 4500 // of one result

	sessionSteps = 10 // calls before the first request of a session; the requests of a session have 200 KB on average
)

// agentBody returns a Messages request of about 200 KB, or all that the requests of a session say, with an endMark after
// each.
func (l *lane) agentBody() string {
	var b strings.Builder
	b.WriteString(`{"model":"` + l.model + `","max_tokens":8192,"system":[{"type":"text","text":` +
		quote(strings.Repeat("You are a careful engineer. Read before you write, keep changes small, and say what you did not do. ", 80)) +
		`,"cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range agentTools {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(toolDeclaration("tool_"+strconv.Itoa(i), 6))
	}
	b.WriteString(`],"messages":[{"role":"user","content":` + quote("Conversation "+conversationMark+". Mend the failing test.") + `}`)
	result := agentResult()
	steps := agentSteps
	if l.session {
		steps = sessionSteps
	}
	newest := quote(strings.Repeat(freshMark, l.fresh/len(freshMark)) + "Request " + numberMark + ". [[sim: " + l.script + " ]]")
	for i := range steps {
		id := "toolu_" + strconv.Itoa(1000+i)
		b.WriteString(`,{"role":"assistant","content":[{"type":"text","text":"I look at the next file."},{"type":"tool_use","id":"` + id +
			`","name":"tool_` + strconv.Itoa(i%agentTools) + `","input":{"path":"src/file_` + strconv.Itoa(i) + `.go","from":1,"to":200}}]}`)
		b.WriteString(`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":` + quote("step "+strconv.Itoa(i)+"\n"+result) + `}`)
		if i == steps-1 {
			b.WriteString(`,{"type":"text","text":` + newest + `}`)
		}
		b.WriteString(`]}`)
	}
	if l.session {
		for range agentTurns - 1 {
			b.WriteString(endMark + `,{"role":"assistant","content":"All is well."},{"role":"user","content":` + newest + `}`)
		}
		b.WriteString(endMark)
	}
	b.WriteString(`]}`)
	return b.String()
}

func agentResult() string {
	var b strings.Builder
	for i := 0; b.Len() < agentResultBytes; i++ {
		fmt.Fprintf(&b, "%4d\tif err := store.Put(key, %q); err != nil {\n\t\treturn fmt.Errorf(\"put: %%w\", err)\n\t}\n", i, "value of "+strconv.Itoa(i*7919))
	}
	return b.String()
}

func toolDeclaration(name string, parameters int) string {
	var b strings.Builder
	b.WriteString(`{"name":"` + name + `","description":"Does one thing to one file of the working tree and says what came of it, line by line.","input_schema":{"type":"object","properties":{"path":{"type":"string","description":"path from the root of the tree"}`)
	for i := range parameters {
		fmt.Fprintf(&b, `,"parameter_%d":{"type":"integer","description":"a bound of what is looked at, counted from one"}`, i)
	}
	b.WriteString(`},"required":["path"]}}`)
	return b.String()
}

// quote writes s as a JSON string; s holds no control characters but tab and line feed.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}
