// Package resource knows what providers offer besides answers of models in a surface's format: files, batches, images and
// so on. It says which of them a path leads to, whose objects they are, and what an answer says of the objects in it. A
// new kind is a row in the table.
package resource

import (
	"slices"
	"strings"
)

// Kind is one kind of what providers offer.
type Kind struct {
	Name   string   // in paths, behind the version
	Thing  string   // what the provider keeps there for an account, as errors name it; "": nothing
	Owners []Owner  // whose it is in a path without the name of a provider; none: nobody's
	Model  bool     // requests name a model, which answers at once
	Text   bool     // with text, whose tokens cost
	Runs   bool     // requests make models run that they do not name
	Public bool     // the same for every account
	Raw    bool     // bodies may be media themselves, without a form around them
	Refuse string   // why it is not for a proxy; "": it is
	Allow  string   // the word in pass_through.allow with which it is
	Verbs  []string // that make models run; others do not
}

// Owner is the API in which a path without the name of a provider is looked for.
type Owner uint8

const (
	OpenAI    Owner = iota // below /v1
	Anthropic              // below /v1, with the header Anthropic-Version
	Google                 // below /v1beta
)

// Provider returns the name of the provider.
func (o Owner) Provider() string { return [...]string{"openai", "anthropic", "gemini"}[o] }

const (
	administration = "administration"
	fineTuning     = "fine_tuning"
	clientSecrets  = "client_secrets"

	whyAdministration = "it administers the provider's organization"
	whyFineTuning     = "it trains models, at the cost of whoever owns the credential"
	whySecrets        = "it hands out credentials for the provider itself, whose use is not recorded here" //nolint:gosec // a sentence, no credential
)

var (
	openAI    = []Owner{OpenAI}
	anthropic = []Owner{Anthropic}
	google    = []Owner{Google}
)

// kinds are all that is known. Sources: the vendors' own references of their APIs; docs/routing.md#everything-else says what is done with them.
var kinds = []Kind{
	{Name: "files", Thing: "File", Owners: []Owner{OpenAI, Anthropic, Google}, Raw: true},
	{Name: "uploads", Thing: "Upload", Owners: openAI, Raw: true},
	{Name: "batches", Thing: "Batch", Owners: []Owner{OpenAI, Google}, Runs: true},
	{Name: "images", Owners: openAI, Model: true},
	{Name: "audio", Owners: openAI, Model: true, Raw: true},
	{Name: "audio/voices", Thing: "Voice", Owners: openAI},
	{Name: "audio/voice_consents", Thing: "Voice consent", Owners: openAI},
	{Name: "moderations", Owners: openAI, Model: true},
	{Name: "completions", Owners: openAI, Model: true, Text: true},
	{Name: "videos", Thing: "Video", Owners: openAI, Model: true},
	{Name: "vector_stores", Thing: "Vector store", Owners: openAI},
	{Name: "containers", Thing: "Container", Owners: openAI},
	{Name: "conversations", Thing: "Conversation", Owners: openAI},
	{Name: "assistants", Thing: "Assistant", Owners: openAI, Model: true},
	{Name: "threads", Thing: "Thread", Owners: openAI, Runs: true},
	{Name: "threads/runs", Thing: "Run", Owners: openAI, Runs: true},
	{Name: "evals", Thing: "Eval", Owners: openAI, Runs: true},
	{Name: "skills", Thing: "Skill", Owners: []Owner{OpenAI, Anthropic}},
	{Name: "chat/completions", Thing: "Chat completion", Owners: openAI},
	{Name: "messages/batches", Thing: "Message batch", Owners: anthropic, Runs: true},
	{Name: "complete", Owners: anthropic, Model: true, Text: true},
	{Name: "models", Public: true, Owners: google, Verbs: []string{"batchGenerateContent", "asyncBatchEmbedContent"}},
	{Name: "cachedContents", Thing: "Cached content", Owners: google, Model: true},
	{Name: "fileSearchStores", Thing: "File search store", Owners: google},
	{Name: "corpora", Thing: "Corpus", Owners: google},
	{Name: "operations", Thing: "Operation", Owners: google},

	{Name: "fine_tuning", Thing: "Fine-tuning job", Owners: openAI, Runs: true, Refuse: whyFineTuning, Allow: fineTuning},
	{Name: "fine-tunes", Thing: "Fine-tuning job", Owners: openAI, Runs: true, Refuse: whyFineTuning, Allow: fineTuning},
	{Name: "tunedModels", Thing: "Tuned model", Owners: google, Runs: true, Refuse: whyFineTuning, Allow: fineTuning},
	{Name: "organization", Owners: openAI, Refuse: whyAdministration, Allow: administration},
	{Name: "organizations", Owners: anthropic, Refuse: whyAdministration, Allow: administration},
	{Name: "projects", Refuse: whyAdministration, Allow: administration},
	{Name: "dashboard", Refuse: whyAdministration, Allow: administration},
	{Name: "admin", Refuse: whyAdministration, Allow: administration},
	{Name: "user", Refuse: whyAdministration, Allow: administration},
	{Name: "keys", Refuse: whyAdministration, Allow: administration},
	{Name: "key", Refuse: whyAdministration, Allow: administration},
	{Name: "credits", Refuse: whyAdministration, Allow: administration},
	{Name: "realtime", Owners: openAI, Refuse: whySecrets, Allow: clientSecrets},
	{Name: "chatkit", Owners: openAI, Refuse: whySecrets, Allow: clientSecrets},
	{Name: "auth_tokens", Owners: google, Refuse: whySecrets, Allow: clientSecrets},
}

// Permissions are the words that the setting pass_through.allow may hold.
func Permissions() []string { return []string{administration, fineTuning, clientSecrets} }

// Names lists what the providers own without their name in the path, for people.
func Names() []string {
	var names []string
	for i := range kinds {
		if k := &kinds[i]; len(k.Owners) > 0 && k.Refuse == "" {
			names = append(names, k.Name)
		}
	}
	return names
}

// of returns the kind that a path leads to, which begins behind the version, and the rest of the path; nil for none.
func of(path string) (found *Kind, rest string) {
	for i := range kinds {
		k := &kinds[i]
		if found != nil && len(k.Name) < len(found.Name) || len(path) < len(k.Name) || !strings.EqualFold(path[:len(k.Name)], k.Name) {
			continue
		}
		if after := path[len(k.Name):]; after == "" || after[0] == '/' || after[0] == ':' {
			found, rest = k, strings.TrimPrefix(after, "/")
		}
	}
	return found, rest
}

// ownedBy reports whether a path without the name of a provider may be the owner's.
func (k *Kind) ownedBy(o Owner) bool { return slices.Contains(k.Owners, o) }
