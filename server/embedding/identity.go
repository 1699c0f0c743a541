package embedding

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/router"
)

// An identity is "provider/model/dimensions", with "simulated/" before it where the provider is none, and with the
// prefixes behind it as a URL's query where there are any: whatever changes vectors is in it.

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

// Of gives settings whose vectors have the identity, asked for as s says; ok is false for one that is none.
func (s Settings) Of(identity string) (of Settings, ok bool) {
	name, query, _ := strings.Cut(strings.TrimPrefix(identity, ofSimulated), "?")
	_, rest, _ := strings.Cut(name, "/") // a model's name may have slashes of its own
	cut := strings.LastIndexByte(rest, '/')
	if cut <= 0 {
		return s, false
	}
	prefixes, err := url.ParseQuery(query)
	if err != nil {
		return s, false
	}
	s.Model, s.DocumentPrefix, s.QueryPrefix = rest[:cut], prefixes.Get(documentMember), prefixes.Get(queryMember)
	s.Dimensions, err = strconv.Atoi(rest[cut+1:])
	return s, err == nil
}
