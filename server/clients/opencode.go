package clients

// opencode sends its session's id in two headers. The request for the title of a new conversation has the same id, and
// is recognized by its instructions (docs/wire/clients.md#1).
var opencode = client{
	headers: []string{"User-Agent", "X-Session-Id", "X-Session-Affinity"},
	hints:   func(r *Request) Hints { return Hints{Session: r.first("X-Session-Id", "X-Session-Affinity")} },
	titles:  []string{"title generator"},
}
