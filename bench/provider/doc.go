// Package provider is a simulated provider: it speaks the wire formats of the real ones (Chat Completions, Responses,
// Messages, generateContent, Embeddings) on one listener and answers according to a script in the prompt. It is not a
// model, and every answer says so in the header [MarkHeader].
//
// Tests, load runs and a first try without provider keys share it. With [Options.Strict] it refuses what the real
// providers refuse, in their words, so that a wrong request fails in tests, not in production.
//
// # Scripts
//
// A script is a marker in the newest user text, or after a model name:
//
//	[[sim: directive ; directive ; …]]
//
// A directive is a name and its arguments: words, strings in JSON notation, JSON objects, or key=value. The directives
// between two "then" make one answer; the first answers the prompt, the next the tool results that follow, and so on.
// Without a script, or after its end, the answer is a short text. A script has the same meaning in every format,
// streamed and complete. What a format cannot express is left out, or takes the form that the real provider uses. A
// script that cannot be parsed is answered with 400 and the reason.
//
// The content of the answer, in this order:
//
//	text "…" [size=N]           text, in deltas of N characters (default: size, or 8)
//	events N                    N deltas of made-up text
//	size N                      characters per delta, of everything after it (of "events": in the whole answer)
//	empty                       nothing
//	reasoning "…"               visible reasoning, with a signature where the format has one
//	redacted                    reasoning with only its opaque state
//	call NAME {…}               a function call; without {…} a call without arguments; with "…" instead of {…} a
//	                            call whose arguments are that text, valid JSON or not
//	call NAME {…} namespace=NS  a call into a namespace
//	custom NAME "…"             a freeform call
//	interleave                  argument fragments of neighboring calls alternate, where the format can
//	search "…" [url=…] [title=…]  a web search that the provider runs itself
//	cite URL ["title"]          a citation on the text before it
//	refuse ["…"]                a refusal
//	block                       the prompt is blocked: no answer
//	then                        the next answer of a tool loop
//
// A call names the tool as the user knows it. If the request declares it in another form (a freeform tool as a function
// with one string, a namespaced tool under a joined name), the call takes that form, as a model would.
//
// The reason it ends (default: the end of the turn, or a wait for tool results):
//
//	stop length                 the output limit
//	stop call                   the output limit, in the middle of the last call's arguments
//	stop context                the context window is full
//	stop sequence "…"           a stop sequence
//	stop filter                 a content filter
//	stop pause                  the turn goes on in another request (messages, gemini)
//	stop malformed              the model's call cannot be parsed (gemini, responses)
//	usage [input=N] [cached=N] [written=N] [output=N] [reasoning=N]
//	                            token counts; input includes cached and written, output includes reasoning. What is
//	                            left out is estimated at four bytes per token. With [Options.Cache], cached and
//	                            written are those of a prompt cache over the earlier requests.
//
// "stop-at" is the same as "stop".
//
// How it travels:
//
//	delay [D] [header=D] [first=D]  time between two writes, before the status line, before the first event
//	burst N                     N events per write (default: as many as fit 32 KiB; one with a delay between writes)
//	stamped                     every twentieth delta of "events" has the time of its write, see [ReadStamp]; if the terminal
//	                            events repeat the text (responses), the repetition has later times
//	queue N [D]                 N keep-alives, D apart, before the answer begins; before a complete answer empty lines
//	ping [every=N]              a keep-alive in the format's own form after every N events (gemini has none)
//	error STATUS|CLASS [code=…] [message=…] [retry-after=S] [times=N]
//	                            an error instead of the answer, to the first N requests with the same body
//	error-inside [CLASS] [after=N] [form=event] [code=…] [message=…]
//	                            an error inside the stream, after N events (0: as the first) or before the terminal ones; instead of a
//	                            complete answer the error itself
//	cut [after=N] [how=abort|clean|mid|reset]
//	                            the stream ends after N events or before the terminal ones: the connection closes, the
//	                            body ends as if whole, the connection closes inside an event, or is reset
//	reset, garbage, html [STATUS], redirect [STATUS] [LOCATION], body STATUS "…"
//	                            no answer of the format
//	early-hints                 a 103 answer before the real one
//	content-type "…", header NAME "…"
//	crlf, one-byte, gzip        event framing with CR LF, one write per byte, a compressed body
//	unknown                     members and events that no format defines are mixed in
//	split-surrogates            text beyond ASCII as \u escapes, with deltas that may cut a surrogate pair in two
//	omit usage|done|finish|ids|signature|event-lines
//	                            one thing that real streams have is missing
//	quirk NAME                  a habit of compatible hosts. In chat: whole-calls (a call in one delta), same-index (all
//	                            calls have index 0), repeated-names (id and name in every fragment), late-names (the
//	                            name comes after the id), finish-stop ("stop" although there are calls),
//	                            finish-with-text (the last text travels with the finish reason), usage-everywhere,
//	                            usage-with-finish, empty-deltas, reasoning-member ("reasoning" instead of
//	                            "reasoning_content"), thinking-parts (content as an array that holds the reasoning).
//	                            In responses: no-deltas
//
// The classes are invalid, authentication, billing, permission, not-found, too-large, rate-limit, server, overloaded,
// timeout and context.
package provider
