package server

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/store/record"
)

// Providers keep answers, files, conversations and more, which requests name by their ids, and let everyone use them who
// has the credential. With the server's own credential that would be every account. So what a request names there has to
// come from an answer to its account; anything else is refused as providers refuse ids that they do not know. With its
// own credential an account names what it likes, and so it does on a server that has no other account.

// reference is something at a provider that a request names.
type reference struct {
	kind string // as errors write it
	id   string
	path string // the member that has it
}

var escapedASCII = []byte(`\u00`) // may be in the name of a member

// mayRefer reports whether a body may name something at a provider. It does not allocate.
func mayRefer(format codec.Format, body []byte) bool {
	marks := crossing.Traits(format).References
	for _, mark := range marks {
		if bytes.Contains(body, mark) {
			return true
		}
	}
	return len(marks) > 0 && bytes.Contains(body, escapedASCII)
}

// require returns an error unless all that a request names at its provider comes from answers to the account.
func (k *ownership) require(account, provider string, named []reference) error {
	if len(named) == 0 || !k.several() {
		return nil
	}
	missing, err := k.foreign(account, provider, named)
	if err != nil || len(missing) == 0 {
		return err
	}
	foreign := missing[0]
	e := codec.Errorf(codec.KindNotFound, "%s with id '%.100s' not found. With the server's credential for %s an account can refer only to what it got in its own answers; to refer to other things, set the account's own with: mneme account credential set %s %s",
		foreign.kind, foreign.id, provider, account, provider)
	if e.Param = foreign.path; foreign.path == "previous_response_id" {
		e.Code = "previous_response_not_found"
	}
	return e
}

// keep remembers an answer that is not on record, so that the account can continue it: at once here, and after a restart
// or on another node as soon as the note is committed.
func (k *ownership) keep(account, response string) {
	k.add(account, response)
	k.notes.Keep(account, referenceNote(response), []byte{1})
}

func referenceNote(response string) string { return "answer " + response }

// ownership is which account things at providers belong to, by their ids in its answers.
type ownership struct {
	archive  Answers
	notes    Notes
	accounts Accounts

	apart atomic.Bool // there have been several accounts since the server started

	mu    sync.Mutex
	known map[string]struct{} // by account and id
}

// several reports whether there are several accounts to keep apart.
func (k *ownership) several() bool {
	if !k.apart.Load() && len(k.accounts.List()) > 1 {
		k.apart.Store(true)
	}
	return k.apart.Load()
}

// mostReferences is how many ids are remembered. Others are searched for again.
const mostReferences = 1 << 16

func (k *ownership) has(account, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.known[account+"\x00"+id]
	return known
}

func (k *ownership) add(account, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= mostReferences {
		k.known = make(map[string]struct{})
	}
	k.known[account+"\x00"+id] = struct{}{}
}

func (k *ownership) forget(account, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, account+"\x00"+id)
}

// mostAsked is for how many things of a request, or of an answer, the other nodes of a cluster are asked.
const mostAsked = 8

// foreign returns the references that are not the account's: neither claimed nor in an answer to it. Of answers that are
// referred to all are searched, for other things the newest ones.
func (k *ownership) foreign(account, provider string, named []reference) (foreign []reference, err error) {
	missing := make(map[string]*reference)
	for i := range named {
		r := &named[i]
		if k.has(account, r.id) {
			continue
		}
		if r.path == "previous_response_id" {
			_, err := k.archive.AnsweredAs(account, r.id)
			switch {
			case err == nil || k.notes.Recall(account, referenceNote(r.id)) != nil:
				k.add(account, r.id)
				continue
			case codec.AsError(err, "").Kind != codec.KindNotFound:
				return nil, err
			}
			return []reference{*r}, nil
		}
		claimed, err := k.notes.Claimed(account, provider, r.id)
		if err != nil {
			return nil, err
		}
		if !claimed && len(named) <= mostAsked { // another node may have made it
			_, unknown := k.archive.AnsweredAs(account, r.id)
			claimed = unknown == nil
		}
		if claimed {
			k.add(account, r.id)
			continue
		}
		missing[r.id] = r
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if err := k.search(account, missing); err != nil {
		return nil, err
	}
	for i := range named {
		if r := missing[named[i].id]; r != nil {
			foreign = append(foreign, *r)
		}
	}
	return foreign, nil
}

// search removes from missing what the newest answers to the account have.
func (k *ownership) search(account string, missing map[string]*reference) error {
	page, err := k.archive.Exchanges(account, record.ExchangeQuery{Limit: newestAnswers})
	if err != nil {
		return err
	}
	for i := 0; i < len(page.Data) && len(missing) > 0; i++ {
		if page.Data[i].Outcome == record.OutcomeOpen {
			continue
		}
		answer, err := k.archive.Exchange(account, page.Data[i].ID)
		if err != nil {
			continue // it may have been erased meanwhile
		}
		given(answer.RawResponse, func(id []byte) {
			if _, wanted := missing[string(id)]; wanted {
				k.add(account, string(id))
				delete(missing, string(id))
			}
		})
	}
	return nil
}

// given visits the ids of things in an answer, complete or streamed.
func given(answer []byte, visit func(id []byte)) {
	ids := func(object []byte, _ int) {
		for m := scan.Object(object); m.Next(); {
			switch string(m.Key) {
			case "id", "file_id", "container_id", "output_file_id", "error_file_id":
				if scan.IsString(m.Value) {
					visit(scan.Body(m.Value))
				}
			}
		}
	}
	if scan.IsObject(answer) {
		eachObject(answer, 0, ids)
		return
	}
	stream := sse.Split(answer)
	for f := (sse.Frame{}); stream.Next(&f); {
		eachObject(f.Data, 0, ids)
	}
}

// namedIn returns all that a body names at its provider.
func namedIn(body []byte) (named []reference) {
	references(body, func(r reference) { named = append(named, r) })
	return named
}

// references visits what a request names at its provider.
func references(body []byte, visit func(reference)) {
	eachObject(body, 0, func(object []byte, depth int) {
		bare := true // it has an id and nothing else
		var id, kind string
		for m := scan.Object(object); m.Next(); {
			name := string(m.Key)
			one := func(kind string, value []byte) {
				bare = false
				if scan.IsString(value) && len(value) > 2 {
					visit(reference{kind, scan.String(value), name})
				}
			}
			switch name {
			case "file_id", "input_file_id", "training_file", "validation_file":
				one("File", m.Value)
			case "fileName", "file_name":
				if strings.HasPrefix(scan.String(m.Value), "files/") {
					one("File", m.Value)
				}
			case "voice":
				one("Voice", scan.Get(m.Value, "id"))
			case "thread_id":
				one("Thread", m.Value)
			case "assistant_id":
				one("Assistant", m.Value)
			case "vector_store_id":
				one("Vector store", m.Value)
			case "container_id":
				one("Container", m.Value)
			case "cachedContent", "cached_content":
				one("Cached content", m.Value)
			case "fileUri", "file_uri", "uri":
				bare = false
				if file := googlesFile(scan.String(m.Value)); file != "" {
					visit(reference{"File", file, name})
				}
			case "file_ids", "vector_store_ids", "fileSearchStoreNames", "file_search_store_names":
				for e := scan.Array(m.Value); e.Next(); {
					one(kindOfList[name], e.Value)
				}
			case "semanticRetriever", "semantic_retriever":
				one("Corpus", scan.Get(m.Value, "source"))
			case "previous_interaction_id":
				one("Interaction", m.Value)
			case "skill_id":
				if strings.HasPrefix(scan.String(m.Value), "skill_") { // others are the vendor's own
					one("Skill", m.Value)
				}
			case "container":
				one("Container", m.Value)
				one("Container", scan.Get(m.Value, "id"))
			case "audio":
				one("Audio", scan.Get(m.Value, "id"))
			case "previous_response_id":
				if depth == 0 {
					one("Previous response", m.Value)
				}
			case "conversation", "prompt":
				if kind := map[string]string{"conversation": "Conversation", "prompt": "Prompt"}[name]; depth == 0 {
					one(kind, scan.Get(m.Value, "id"))
					if name == "conversation" {
						one(kind, m.Value)
					}
				}
			case "id":
				id = scan.String(m.Value)
			case "type":
				kind = scan.String(m.Value)
				bare = bare && (scan.IsNull(m.Value) || kind == "item_reference")
			default:
				bare = false
			}
		}
		switch {
		case bare && id != "" && depth == itemDepth:
			visit(reference{"Item", id, "input"})
		case kind == "file_id" && id != "":
			visit(reference{"File", id, "id"})
		}
	})
}

var kindOfList = map[string]string{
	"file_ids": "File", "vector_store_ids": "Vector store",
	"fileSearchStoreNames": "File search store", "file_search_store_names": "File search store",
}

// googlesFile returns the name of a file at Google; "" if the address leads elsewhere. An address at that host without the
// name of a file is returned unchanged: no account owns it, so it is refused.
func googlesFile(uri string) string {
	switch {
	case strings.HasPrefix(uri, "files/"):
		return uri
	case !strings.Contains(strings.ToLower(uri), "generativelanguage.googleapis.com"):
		return ""
	}
	if _, name, found := strings.Cut(uri, "/files/"); found {
		return "files/" + name
	}
	return uri
}

// itemDepth is how deep items of a conversation are: in a list of the body.
const itemDepth = 2

// deepest is how many objects and arrays deep a body is searched. What providers define is less deep. Each level is read
// again with all that it holds.
const deepest = 20

// eachObject visits an object and the objects in it, without those whose members a caller or its model names: schemas,
// metadata, attributes, environments, headers, what tools are called with and what they return. An id there proves nothing.
func eachObject(value []byte, depth int, visit func(object []byte, depth int)) {
	switch {
	case depth > deepest:
	case scan.IsArray(value):
		for e := scan.Array(value); e.Next(); {
			eachObject(e.Value, depth+1, visit)
		}
	case scan.IsObject(value):
		visit(value, depth)
		kind := scan.String(scan.Get(value, "type"))
		for m := scan.Object(value); m.Next(); {
			switch string(m.Key) {
			case "metadata", "attributes", "env", "headers", "parameters", "input_schema", "schema", "arguments", "args",
				"parametersJsonSchema", "parameters_json_schema", "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema":
				continue
			case "input":
				if strings.HasSuffix(kind, "tool_use") {
					continue
				}
			case "result":
				if kind == "function_result" {
					continue
				}
			case "functionResponse", "function_response":
				eachObject(scan.Get(m.Value, "parts"), depth+2, visit)
				continue
			}
			if len(m.Value) > 0 && (m.Value[0] == '{' || m.Value[0] == '[') {
				eachObject(m.Value, depth+1, visit)
			}
		}
	}
}

// newestAnswers is how many of an account's newest exchanges are searched for a provider's item.
const newestAnswers = 200
