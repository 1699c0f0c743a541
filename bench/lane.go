package bench

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// A lane is one kind of work.
type lane struct {
	Name    string
	About   string
	surface codec.Format // of the client
	model   string       // decides which provider mneme uses, see mnemeConfig
	stream  bool
	script  string // of the simulated provider
	agent   bool   // the body of an agent late in a session instead of a short prompt
	fresh   int    // bytes of text in the newest message of an agent that no earlier request had
	repeats bool   // all requests of a round are equal, as if each were retried
	session bool   // each request of an agent continues the one before it, and is sent after the answer to that

	connections int
	requests    int           // per round; 0: as many as the connections
	events      int           // deltas in an answer, 0 for complete ones
	gap         time.Duration // between two writes of the provider
	leaveAfter  int           // deltas after which the client closes the connection; 0: never
	slow        bool          // only on demand: takes long, or many files
	crossed     bool          // mneme translates; the floors never do
	search      bool          // asks the memory instead of a model; only targets that keep one take part
	beside      float64       // exchanges per second captured meanwhile
}

// Models, by the provider to which mneme routes them. They have names of real models if the format depends on it.
const (
	openAI     = "gpt-5.5"         // Chat Completions, Responses, Embeddings
	compatible = "bench-1"         // Chat Completions only
	anthropic  = "claude-opus-4-8" // Messages
	gemini     = "gemini-2.5-pro"  // generateContent
	embedding  = "text-embedding-3-small"
)

// Scripts. A burst is written as fast as possible; paced events are written and flushed one by one, ten milliseconds
// apart, and contain the time.
const (
	short      = "text \"All is well.\""
	burst      = "events 200 ; size 12"
	paced      = "events 200 ; stamped ; delay 10ms"
	pacedPlain = "events 200 ; size 12 ; delay 10ms"
	publisher  = "events 31 ; size 4"
	toolLoop   = "reasoning \"First I look at the file, then I change it, and then I run the tests again to see whether they pass.\" ; events 50 ; size 12 ; " +
		"call read_file {\"path\":\"src/main.go\",\"from\":1,\"to\":240} ; call run_tests {\"packages\":[\"./...\"],\"race\":true}"
	slowly    = "events 20 ; size 12 ; delay 500ms"
	endlessly = "events 2000 ; size 12 ; delay 10ms"
)

const pacedGap = 10 * time.Millisecond

// lanes are all lanes, in the order of the report.
var lanes = []lane{
	{Name: "chat", About: "short chat answer, same format", surface: codec.Chat, model: openAI, script: short, connections: 16, requests: 4000},
	{Name: "chat-stream", About: "chat stream of 200 events in a burst, same format", surface: codec.Chat, model: openAI, stream: true, script: burst, events: 200, connections: 16, requests: 1600},
	{Name: "chat-stream-paced", About: "chat stream paced: an event per 10 ms and stream, same format", surface: codec.Chat, model: openAI, stream: true, script: paced, events: 200, gap: pacedGap, connections: 100},
	{Name: "responses-stream", About: "responses stream, burst, same format", surface: codec.Responses, model: openAI, stream: true, script: burst, events: 200, connections: 16, requests: 1600},
	{Name: "responses-stream-paced", About: "responses stream paced, same format", surface: codec.Responses, model: openAI, stream: true, script: pacedPlain, events: 200, gap: pacedGap, connections: 100},
	{Name: "messages-stream", About: "messages stream, burst, same format", surface: codec.Messages, model: anthropic, stream: true, script: burst, events: 200, connections: 16, requests: 1600},
	{Name: "messages-stream-paced", About: "messages stream paced, same format", surface: codec.Messages, model: anthropic, stream: true, script: paced, events: 200, gap: pacedGap, connections: 100},

	{Name: "chat-on-messages-whole", About: "short chat answer from a Messages provider", surface: codec.Chat, model: anthropic, script: short, connections: 16, requests: 4000, crossed: true},
	{Name: "messages-on-chat", About: "messages client on a Chat provider, burst", surface: codec.Messages, model: compatible, stream: true, script: burst, events: 200, connections: 16, requests: 1600, crossed: true},
	{Name: "messages-on-chat-paced", About: "messages client on a Chat provider, paced", surface: codec.Messages, model: compatible, stream: true, script: paced, events: 200, gap: pacedGap, connections: 100, crossed: true},
	{Name: "messages-on-responses", About: "messages client on a Responses provider, burst", surface: codec.Messages, model: openAI, stream: true, script: burst, events: 200, connections: 16, requests: 1600, crossed: true},
	{Name: "chat-on-messages", About: "chat client on a Messages provider, burst", surface: codec.Chat, model: anthropic, stream: true, script: burst, events: 200, connections: 16, requests: 1600, crossed: true},
	{Name: "chat-on-messages-paced", About: "chat client on a Messages provider, paced", surface: codec.Chat, model: anthropic, stream: true, script: paced, events: 200, gap: pacedGap, connections: 100, crossed: true},
	{Name: "responses-on-messages", About: "responses client on a Messages provider, burst", surface: codec.Responses, model: anthropic, stream: true, script: burst, events: 200, connections: 16, requests: 1600, crossed: true},
	{Name: "chat-on-gemini", About: "chat client on Gemini, burst", surface: codec.Chat, model: gemini, stream: true, script: burst, events: 200, connections: 16, requests: 1600, crossed: true},
	{Name: "tools-crossed", About: "reasoning, text and two tool calls in a stream, messages client on a Responses provider", surface: codec.Messages, model: openAI, stream: true, script: toolLoop, events: 50, connections: 16, requests: 1600, crossed: true},

	{Name: "agent", About: "agent request of 200 KB with 50 tools, messages, short answer, same format", surface: codec.Messages, model: anthropic, script: short, agent: true, connections: 8, requests: 400},
	{Name: "agent-crossed", About: "agent request of 200 KB with 50 tools, messages client on a Responses provider, short answer", surface: codec.Messages, model: openAI, script: short, agent: true, connections: 8, requests: 400, crossed: true},
	{Name: "agent-reading", About: "the same, with 10 KB of new text in each request", surface: codec.Messages, model: openAI, script: short, agent: true, fresh: 10_000, connections: 8, requests: 400, crossed: true},
	{Name: "agent-session", About: "agent requests of 200 KB, 10 KB of them new, each continuing the one before: eight sessions at a time", surface: codec.Messages, model: openAI, script: short, agent: true, session: true, fresh: 10_000, connections: 8, requests: 480, crossed: true},
	{Name: "agent-repeated", About: "agent request of 200 KB, each a repetition of the one before", surface: codec.Messages, model: openAI, script: short, agent: true, repeats: true, connections: 8, requests: 400, crossed: true},
	{Name: "embeddings", About: "embedding of one sentence, same format", surface: codec.Embeddings, model: embedding, connections: 16, requests: 4000},
	{Name: "slow-streams", About: "5,000 open streams, two events per second each", surface: codec.Chat, model: openAI, stream: true, script: slowly, events: 20, gap: 500 * time.Millisecond, connections: 5000, slow: true},
	{Name: "disconnects", About: "clients that leave after ten events", surface: codec.Chat, model: openAI, stream: true, script: endlessly, events: 2000, gap: pacedGap, leaveAfter: 10, connections: 100, requests: 500},

	{Name: "search", About: "search while 200 exchanges/s are captured; CPU time of both", search: true, beside: 200, connections: 4, requests: 2000},

	{Name: "published-chat", About: "31 deltas' worth of text, 10 connections: complete chat answer", surface: codec.Chat, model: openAI, script: publisher, connections: 10, requests: 3000},
	{Name: "published-chat-stream", About: "31 deltas, 10 connections: chat stream", surface: codec.Chat, model: openAI, stream: true, script: publisher, events: 31, connections: 10, requests: 3000},
	{Name: "published-responses", About: "31 deltas' worth of text, 10 connections: complete Responses answer", surface: codec.Responses, model: openAI, script: publisher, connections: 10, requests: 3000},
	{Name: "published-responses-stream", About: "31 deltas, 10 connections: Responses stream", surface: codec.Responses, model: openAI, stream: true, script: publisher, events: 31, connections: 10, requests: 3000},
	{Name: "published-messages", About: "31 deltas' worth of text, 10 connections: complete Messages answer from a Chat provider", surface: codec.Messages, model: compatible, script: publisher, connections: 10, requests: 3000, crossed: true},
	{Name: "published-messages-stream", About: "31 deltas, 10 connections: Messages stream from a Chat provider", surface: codec.Messages, model: compatible, stream: true, script: publisher, events: 31, connections: 10, requests: 3000, crossed: true},
}

// shortSet are the lanes of a run that names none: they cover the promises, in a few minutes.
var shortSet = []string{
	"chat", "chat-stream", "chat-stream-paced", "responses-stream", "messages-stream",
	"chat-on-messages-whole", "messages-on-chat", "messages-on-chat-paced", "chat-on-messages", "chat-on-messages-paced",
	"tools-crossed", "agent-crossed", "embeddings",
}

func findLane(name string) (lane, bool) {
	for _, l := range lanes {
		if l.Name == name {
			return l, true
		}
	}
	return lane{}, false
}

func (l *lane) path() string {
	if l.search {
		return "/v1/memory/search"
	}
	switch l.surface {
	case codec.Chat:
		return "/v1/chat/completions"
	case codec.Responses:
		return "/v1/responses"
	case codec.Messages:
		return "/v1/messages"
	default:
		return "/v1/embeddings"
	}
}

// runsOn reports whether a target takes part in the lane.
func (l *lane) runsOn(t *target) bool {
	return !l.search || t.keeps
}

// perRound returns the number of requests of one round; a paced lane has one per connection, because its rounds take as
// long as a stream does.
func (l *lane) perRound(scale float64) int {
	if l.requests == 0 {
		return l.connections
	}
	requests := max(int(float64(l.requests)*scale), l.connections)
	if l.session { // whole sessions, as many on each connection
		whole := l.connections * agentTurns
		requests = (requests + whole - 1) / whole * whole
	}
	return requests
}

// eventsHeard returns how many deltas of an answer a client gets if the lane counts events; lanes whose clients
// disconnect count requests.
func (l *lane) eventsHeard() int {
	if l.leaveAfter > 0 {
		return 0
	}
	return l.events
}

// stamped reports whether events contain the time at which they were written.
func (l *lane) stamped() bool { return strings.Contains(l.script, "stamped") }
