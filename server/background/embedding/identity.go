package embedding

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// An identity is "provider/model/dimensions", preceded by "simulated/" if the provider is simulated, and followed by
// the prefixes, if any, as a URL's query: it has everything that affects vectors.

const (
	ofSimulated    = "simulated/"
	documentMember = "document_prefix"
	queryMember    = "query_prefix"
)

func (s *Settings) identity(p router.Placement, dimensions int) string {
	name := p.Provider.Name() + "/" + p.Model + "/" + strconv.Itoa(dimensions)
	if p.Provider.Simulated() {
		name = ofSimulated + name
	}
	prefixes := url.Values{}
	if s.DocumentPrefix != "" {
		prefixes.Set(documentMember, s.DocumentPrefix)
	}
	if s.QueryPrefix != "" {
		prefixes.Set(queryMember, s.QueryPrefix)
	}
	if len(prefixes) > 0 {
		name += "?" + prefixes.Encode()
	}
	return name
}

// Former returns an embedder by an earlier identity, with the settings of s; nil if it is unavailable.
func Former(identity string, s Settings, r *router.Router, c background.Credentials) search.Embedder {
	if size, local := strings.CutPrefix(identity, localhash.Model+"/"); local {
		dimensions, _ := strconv.Atoi(size)
		if hasher, err := localhash.New(dimensions); err == nil {
			return localhash.Embedder{Hasher: hasher}
		}
		return nil
	}
	if !s.become(identity) {
		return nil
	}
	former, err := New(s, r, c)
	if err != nil || former.identity != identity {
		return nil
	}
	return former
}

// become reads the model, its size and its prefixes from an identity.
func (s *Settings) become(identity string) bool {
	name, query, _ := strings.Cut(strings.TrimPrefix(identity, ofSimulated), "?")
	_, rest, _ := strings.Cut(name, "/") // a model's name may have slashes of its own
	cut := strings.LastIndexByte(rest, '/')
	if cut <= 0 {
		return false
	}
	prefixes, err := url.ParseQuery(query)
	if err != nil {
		return false
	}
	s.Model, s.DocumentPrefix, s.QueryPrefix = rest[:cut], prefixes.Get(documentMember), prefixes.Get(queryMember)
	s.Dimensions, err = strconv.Atoi(rest[cut+1:])
	return err == nil
}
