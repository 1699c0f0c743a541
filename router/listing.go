package router

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

const (
	listDeadline  = 3 * time.Second  // for one provider's list: Claude Code waits 3 s for all of them
	listFresh     = 5 * time.Minute  // how long a list is reused
	listRetry     = 15 * time.Second // how long a failed provider is not asked
	maxListBytes  = 8 << 20
	maxCachedList = 1024 // lists kept, one per provider and credential
)

// A ListedModel is one model on offer.
type ListedModel struct {
	ID          string // the client's name for it
	Provider    string
	OwnedBy     string    // "" if the provider does not say
	DisplayName string    // "" if the provider does not say
	Created     time.Time // zero if the provider does not say
	MaxInput    int64     // tokens; 0 if the provider does not say
	MaxOutput   int64     // tokens; 0 if the provider does not say
}

// CredentialFunc returns the credential for a provider's list in the format that Do will use; zero for none.
type CredentialFunc func(p *Provider, f codec.Format) Credential

// Models returns the union of the providers' lists, in the order of the providers' names and then of each list,
// preceded by the aliases. Providers without a credential, and those that fail, are left out. Lists are requested
// concurrently with a deadline of their own and reused for some minutes. They are kept per credential, so that no
// caller sees names that only another's credential opens.
func (r *Router) Models(ctx context.Context, credential CredentialFunc) []ListedModel {
	lists := make([][]ListedModel, len(r.names))
	var wait sync.WaitGroup
	for i, p := range r.Providers() {
		c := credential(p, p.formats.forListing())
		if c.IsZero() || p.endpoints[0].urlOf(&Call{Operation: ListModels, Format: p.formats.forListing()}) == nil {
			continue
		}
		wait.Go(func() { lists[i] = r.reachable(p, r.lists.get(ctx, r, p, c)) })
	}
	wait.Wait()
	return r.union(slices.Concat(r.listedAliases(), slices.Concat(lists...)))
}

// union lists every name once: for a name in several lists, from the provider that it leads to.
func (r *Router) union(all []ListedModel) []ListedModel {
	at := make(map[string]int, len(all))
	union := all[:0]
	for _, m := range all {
		i, twice := at[m.ID]
		switch {
		case !twice:
			at[m.ID] = len(union)
			union = append(union, m)
		case r.aliases.exact[m.ID] == "" && r.provides(m.ID) == r.providers[m.Provider]:
			union[i] = m
		}
	}
	return union
}

func (r *Router) listedAliases() []ListedModel {
	var list []ListedModel
	for name, to := range r.aliases.exact {
		list = append(list, ListedModel{ID: name, Provider: r.provides(to).name})
	}
	slices.SortFunc(list, func(a, b ListedModel) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// reachable renames the models of a host so that the names lead there.
func (r *Router) reachable(p *Provider, list []ListedModel) []ListedModel {
	if p.vendor == "" {
		return list
	}
	named := slices.Clone(list) // the list itself is shared
	for i := range named {
		if r.provides(named[i].ID) != p {
			named[i].ID = p.vendor + named[i].ID
		}
	}
	return named
}

// modelLists caches the providers' lists.
type modelLists struct {
	deadline time.Duration // listDeadline
	mu       sync.Mutex
	entries  map[listKey]*modelList
}

type listKey struct {
	provider   string
	credential [sha256.Size]byte
}

// modelList is one list, complete or being requested.
type modelList struct {
	done   chan struct{} // closed when models and until are set
	models []ListedModel
	until  time.Time
}

func newModelLists() *modelLists {
	return &modelLists{deadline: listDeadline, entries: make(map[listKey]*modelList)}
}

// get returns a provider's list, from the cache or from one request shared by all concurrent callers. It returns nil if
// ctx ends first; the request goes on for the others.
func (l *modelLists) get(ctx context.Context, r *Router, p *Provider, c Credential) []ListedModel {
	key := listKey{provider: p.name, credential: sha256.Sum256([]byte(c.Header + "\x00" + c.Value))}
	list := l.find(key, func(list *modelList) {
		r.background.Go(func() { list.fetch(r.life, l.deadline, p, c) })
	})
	select {
	case <-list.done:
		return list.models
	case <-ctx.Done():
		return nil
	}
}

// find returns the entry for key, and starts a new one if there is none or it is out of date.
func (l *modelLists) find(key listKey, begin func(*modelList)) *modelList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.entries[key]; list != nil && !list.stale() {
		return list
	}
	l.makeRoom()
	list := &modelList{done: make(chan struct{})}
	l.entries[key] = list
	begin(list)
	return list
}

// makeRoom drops outdated lists, and all lists if that is not enough.
func (l *modelLists) makeRoom() {
	if len(l.entries) < maxCachedList {
		return
	}
	for key, list := range l.entries {
		if list.stale() {
			delete(l.entries, key)
		}
	}
	if len(l.entries) >= maxCachedList {
		clear(l.entries)
	}
}

func (m *modelList) stale() bool {
	select {
	case <-m.done:
		return time.Now().After(m.until)
	default:
		return false
	}
}

func (m *modelList) fetch(ctx context.Context, deadline time.Duration, p *Provider, c Credential) {
	defer close(m.done)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	models, err := p.List(ctx, c)
	if err != nil {
		m.until = time.Now().Add(listRetry)
		return
	}
	m.models, m.until = models, time.Now().Add(listFresh)
}

// ErrNoList is returned by [Provider.List] for a host that has no list of models.
var ErrNoList = errors.New("this host has no list of models")

// List requests a provider's models, by its own names for them.
func (p *Provider) List(ctx context.Context, c Credential) ([]ListedModel, error) {
	if p.endpoints[0].urlOf(&Call{Operation: ListModels, Format: p.formats.forListing()}) == nil {
		return nil, ErrNoList
	}
	reply, fault := p.Do(ctx, &Call{Operation: ListModels, Format: p.formats.forListing(), Credential: c})
	if fault != nil {
		return nil, fault
	}
	defer func() { _ = reply.Body.Close() }()
	switch reply.Status {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d)", p.name, reply.Status)
	default:
		return nil, fmt.Errorf("%s answered with HTTP %d", p.name, reply.Status)
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxListBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxListBytes {
		return nil, errors.New("the list is too long")
	}
	return p.parseList(body)
}

// listBody is the union of the shapes: data (OpenAI and its like, Anthropic) or models (Google).
type listBody struct {
	Data []struct {
		ID          string `json:"id"`
		OwnedBy     string `json:"owned_by"`
		DisplayName string `json:"display_name"`
		Created     int64  `json:"created"`    // OpenAI: Unix seconds
		CreatedAt   string `json:"created_at"` // Anthropic: RFC 3339
		MaxInput    int64  `json:"max_input_tokens"`
		MaxOutput   int64  `json:"max_tokens"`
	} `json:"data"`
	Models []struct {
		Name        string   `json:"name"`
		DisplayName string   `json:"displayName"`
		MaxInput    int64    `json:"inputTokenLimit"`
		MaxOutput   int64    `json:"outputTokenLimit"`
		Methods     []string `json:"supportedGenerationMethods"`
	} `json:"models"`
}

func (p *Provider) parseList(body []byte) ([]ListedModel, error) {
	var in listBody
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	list := make([]ListedModel, 0, len(in.Data)+len(in.Models))
	for _, m := range in.Data {
		if m.ID == "" {
			continue
		}
		listed := ListedModel{ID: m.ID, Provider: p.name, OwnedBy: m.OwnedBy, DisplayName: m.DisplayName, MaxInput: m.MaxInput, MaxOutput: m.MaxOutput}
		if m.Created > 0 {
			listed.Created = time.Unix(m.Created, 0).UTC()
		} else if at, err := time.Parse(time.RFC3339, m.CreatedAt); err == nil {
			listed.Created = at
		}
		list = append(list, listed)
	}
	for _, m := range in.Models {
		if !slices.Contains(m.Methods, "generateContent") && !slices.Contains(m.Methods, "embedContent") {
			continue
		}
		list = append(list, ListedModel{
			ID: strings.TrimPrefix(m.Name, "models/"), Provider: p.name,
			DisplayName: m.DisplayName, MaxInput: m.MaxInput, MaxOutput: m.MaxOutput,
		})
	}
	return list, nil
}
