package resource

import (
	"strings"
)

// Target is where a path leads at a provider.
type Target struct {
	Path  string // behind the name of the provider, plain
	Kind  *Kind  // nil: unknown
	ID    string // of what the path names, as the provider's answers have it; "": it names none, or a list
	Below bool   // the path goes on behind the id
	Model string // that the path names
	Verb  string // behind the last colon, as Google has it
}

// Fault returns what is wrong with a path or a query that is to be passed on, or "". What is passed on is resolved: it
// holds nothing that another reader could resolve to another path or host.
func Fault(path, query string) string {
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(segment, "..") || segment == "." {
			return "the path has dots to be resolved"
		}
	}
	switch {
	case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
		return "the path has no first segment"
	case strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f || c == '%' || c == '\\' || c == 0xfffd }):
		return "the path has a character that is escaped twice, or that no path has"
	case strings.ContainsFunc(query, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' || c == '\\' }):
		return "the query has a character that has to be escaped"
	}
	return ""
}

// Cut splits off the first segment of a path, which may name a provider.
func Cut(path string) (first, rest string) {
	first, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first, "/" + rest
}

// At returns where a path behind the name of a provider leads; google says that the API is Google's, which names things
// by their kind and id, and puts verbs behind a colon.
func At(path string, google bool) Target {
	t := Target{Path: path}
	_, behind := version(path)
	kind, rest := of(behind)
	if t.Kind = kind; kind == nil {
		return t
	}
	if google {
		rest, t.Verb, _ = strings.Cut(rest, ":")
		if rest == "" {
			_, t.Verb, _ = strings.Cut(behind, ":")
		}
	}
	segments := strings.Split(strings.Trim(rest, "/"), "/")
	id := segments[0]
	t.Below = len(segments) > 1
	switch {
	case kind.Name == "models" && t.Below && segments[1] == "operations" && len(segments) > 2:
		t.ID = "models/" + strings.Join(segments[:3], "/")
	case kind.Name == "models":
		t.Model = id
	case kind.Name == fineTuning: // the kind of job comes first
		if t.Below {
			t.ID, t.Below = segments[1], len(segments) > 2
		}
	case kind.Thing == "" || id == "":
	case google:
		t.ID = kind.Name + "/" + id
	default:
		t.ID = id
	}
	return t
}

// Find returns the owner of a path without the name of a provider. client is whose clients send such a request: paths below
// /v1 have several owners.
func Find(path string, client Owner) (owner Owner, found bool) {
	v, behind := version(path)
	kind, _ := of(behind)
	switch {
	case kind == nil:
		return 0, false
	case isGoogles(path), v == "v1" && client == Google:
		return Google, kind.ownedBy(Google)
	case v != "v1":
		return 0, false
	case kind.ownedBy(Anthropic) && (client == Anthropic || !kind.ownedBy(OpenAI)):
		return Anthropic, true
	}
	return OpenAI, kind.ownedBy(OpenAI)
}

// isGoogles reports whether a path has a version of Google's API.
func isGoogles(path string) bool {
	v, _ := version(path)
	return v == "v1beta" || v == "v1alpha"
}

// IsGoogles reports whether a path is one of Google's API, whose clients send their key in a header of its own, or in the
// query.
func IsGoogles(path string) bool { return isGoogles(path) || strings.HasPrefix(path, "/gemini/") }

// version splits a path into its version and what is behind it. Google's uploads have a segment before the version.
func version(path string) (v, behind string) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first == "upload" {
		first, rest, _ = strings.Cut(rest, "/")
	}
	if len(first) > 1 && first[0] == 'v' && '0' <= first[1] && first[1] <= '9' {
		return first, rest
	}
	return "", strings.TrimPrefix(path, "/")
}

// TakesRaw reports whether a body may be media itself. Any other body is JSON or a form, in which what it names is read.
func (t *Target) TakesRaw() bool {
	return t.Kind != nil && t.Kind.Raw || strings.HasPrefix(t.Path, "/upload/")
}

// Apart reports whether what a request with that method is about can be told apart by accounts, or belongs to none.
func (t *Target) Apart(method string) bool {
	switch {
	case t.Kind == nil:
		return false
	case t.Kind.Public:
		return t.ID != "" || !t.Below
	}
	return t.Kind.Thing != "" || method == "POST"
}

// AsksModel reports whether a model answers, as far as is known. What is unknown may ask one.
func (t *Target) AsksModel() bool {
	return t.Kind == nil || t.Kind.Model || t.Model != "" && t.Verb != ""
}

// AsksForText is AsksModel for text, whose tokens cost.
func (t *Target) AsksForText() bool {
	return t.Kind == nil || t.Kind.Text || t.Model != "" && strings.HasSuffix(strings.ToLower(t.Verb), "generatecontent")
}

// RunsModels reports whether a request with that method makes models run that it does not name.
func (t *Target) RunsModels(method string) bool {
	if t.Kind == nil || method == "GET" || method == "HEAD" || method == "DELETE" {
		return false
	}
	for _, verb := range t.Kind.Verbs {
		if strings.EqualFold(verb, t.Verb) {
			return true
		}
	}
	return t.Kind.Runs && !strings.EqualFold(t.Verb, "cancel") && !strings.HasSuffix(t.Path, "/cancel")
}

// IsList reports whether a request with that method asks for a list of all that the provider keeps of a kind.
func (t *Target) IsList(method string) bool {
	return t.Kind != nil && t.Kind.Thing != "" && t.ID == "" && method == "GET"
}
