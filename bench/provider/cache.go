package provider

import (
	"crypto/sha256"
	"hash"
	"net/http"
	"sync"
)

// What the prompt caches of the real providers go by.
const (
	leastCached  = 1024 // tokens that a prompt has to begin alike
	cacheStep    = 128  // tokens: prompts without marks are cached up to a multiple of it
	cacheMarks   = 4    // of a request
	lookedBehind = 20   // blocks before a mark where an earlier request may have had its mark
	tokenBytes   = 4    // of a prompt, as everywhere here
	maxBeginning = 1 << 17
)

// A promptCache counts what a provider would have in its prompt cache: it knows hashes of how prompts began, no text. What
// has been in it longest is forgotten, whatever its age.
type promptCache struct {
	mu           sync.Mutex
	newer, older map[beginning]struct{} // maxBeginning each, at most
}

// A beginning is the hash of everything up to a place in a prompt, of its model and of whose it is.
type beginning [sha256.Size]byte

// A segment is a piece of a prompt that a cache mark can follow.
type segment struct {
	text   []byte // without its mark
	marked bool
}

func newPromptCache() *promptCache {
	return &promptCache{newer: make(map[beginning]struct{})}
}

// has reports whether a prompt began like that, and keeps in mind that one did.
func (c *promptCache) has(b beginning) bool {
	if _, found := c.newer[b]; found {
		return true
	}
	_, found := c.older[b]
	if found {
		c.add(b)
	}
	return found
}

func (c *promptCache) add(b beginning) {
	if len(c.newer) >= maxBeginning {
		c.newer, c.older = make(map[beginning]struct{}), c.newer
	}
	c.newer[b] = struct{}{}
}

// readMarked counts in bytes what of a prompt with cache marks is read and what is written: it is read up to the last
// place at or little before a mark up to which an earlier prompt was written, and written up to the last mark.
func (c *promptCache) readMarked(owner hash.Hash, prompt []segment) (read, written int) {
	ends := make([]beginning, len(prompt)) // of the segments
	sizes := make([]int, len(prompt))      // up to there
	var marks []int
	size := 0
	for i, s := range prompt {
		owner.Write(s.text)
		owner.Write([]byte{0})
		owner.Sum(ends[i][:0])
		size += len(s.text)
		sizes[i] = size
		if s.marked && size >= leastCached*tokenBytes && len(marks) < cacheMarks {
			marks = append(marks, i)
		}
	}
	if len(marks) == 0 {
		return 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mark := range marks {
		for i := mark; i >= max(mark-lookedBehind, 0); i-- {
			if c.has(ends[i]) {
				read = max(read, sizes[i])
				break
			}
		}
	}
	for _, mark := range marks {
		c.add(ends[mark])
	}
	return read, max(sizes[marks[len(marks)-1]]-read, 0)
}

// readSteps counts in bytes what is read of a prompt that is cached without being asked to.
func (c *promptCache) readSteps(owner hash.Hash, prompt []segment) (read int) {
	const step = cacheStep * tokenBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	var b beginning
	size := 0
	for _, s := range prompt {
		for text := s.text; len(text) > 0; {
			n := min(step-size%step, len(text))
			owner.Write(text[:n])
			text = text[n:]
			if size += n; size%step != 0 || size < leastCached*tokenBytes {
				continue
			}
			owner.Sum(b[:0])
			if c.has(b) {
				read = size
			}
			c.add(b)
		}
	}
	return read
}

// cacheOwner begins the hashes of a prompt: a cache of another model or customer is never read.
func cacheOwner(r *http.Request, p *prompt) hash.Hash {
	h := sha256.New()
	for _, part := range []string{r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), p.model, p.members.text("prompt_cache_key")} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return h
}

// countCached fills the counters of the cache, where the script leaves them open.
func (c *call) countCached(f format, a *answer, p *prompt) {
	if c.server.cache == nil || a.usage.cached != 0 || a.usage.written != 0 {
		return
	}
	read, written := f.cached(c.server.cache, cacheOwner(c.r, p), p.members)
	a.usage.cached = min(read/tokenBytes, a.usage.input)
	a.usage.written = min(written/tokenBytes, a.usage.input-a.usage.cached)
}

func (messagesFormat) cached(c *promptCache, owner hash.Hash, request object) (read, written int) {
	var prompt []segment
	for _, value := range request.list("tools") {
		prompt = append(prompt, blockSegment("tool", value))
	}
	prompt = appendContent(prompt, "system", request["system"])
	for _, value := range request.list("messages") {
		message, _ := parseObject(value)
		prompt = appendContent(prompt, message.text("role"), message["content"])
	}
	if request.has("cache_control") && len(prompt) > 0 { // of the request: its last block has the mark
		prompt[len(prompt)-1].marked = true
	}
	return c.readMarked(owner, prompt)
}

func (chatFormat) cached(c *promptCache, owner hash.Hash, request object) (read, written int) {
	return c.readSteps(owner, members(request, "tools", "response_format", "messages")), 0
}

// A conversation that the provider keeps counts with what the request adds to it.
func (responsesFormat) cached(c *promptCache, owner hash.Hash, request object) (read, written int) {
	return c.readSteps(owner, members(request, "tools", "text", "instructions", "input")), 0
}

func (geminiFormat) cached(c *promptCache, owner hash.Hash, request object) (read, written int) {
	return c.readSteps(owner, members(request, "tools", "systemInstruction", "contents")), 0
}

// members returns members of a request in the order in which the model reads them. The end of a list differs from its
// continuation, and is left out.
func members(request object, names ...string) []segment {
	var prompt []segment
	for _, name := range names {
		list, isList := parseList(request[name])
		if !isList {
			list = []raw{request[name]}
		}
		for _, value := range list {
			prompt = append(prompt, segment{text: value})
		}
	}
	return prompt
}

// appendContent appends the blocks of a message, each with whose it is. A string is one block of text.
func appendContent(prompt []segment, role string, content raw) []segment {
	if _, isText := parseString(content); isText {
		return append(prompt, blockSegment(role, raw(`{"type":"text","text":`+aliasString(content)+`}`)))
	}
	blocks, _ := parseList(content)
	for _, value := range blocks {
		prompt = append(prompt, blockSegment(role, value))
	}
	return prompt
}

// blockSegment reads a block, or a tool. Its mark is no part of what is cached, and the order of its members does not count.
func blockSegment(role string, value raw) segment {
	block, _ := parseObject(value)
	s := segment{text: []byte(role), marked: block.has("cache_control")}
	for _, name := range sortedNames(block) {
		if name == "cache_control" {
			continue
		}
		s.text = append(appendString(s.text, name), block[name]...)
	}
	return s
}

// ForgetPrompts empties the prompt cache, as if all in it had grown too old.
func (s *Server) ForgetPrompts() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.newer, s.cache.older = make(map[beginning]struct{}), nil
}
