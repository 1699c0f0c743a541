package opensearch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Limits on candidates, those of the tables in Postgres.
const (
	heaviestTurns = 400
	demandedTurns = 32
	listedTurns   = 1100
	alikeTurns    = 400 // by their full vectors, which are compared exactly later
)

// findTimeout is how long the engine may take for a request. A search uses Postgres instead if it takes longer.
const findTimeout = 3 * time.Second

// found is an answer of the engine.
type found struct {
	TimedOut bool                 `json:"timed_out"`
	Shards   struct{ Failed int } `json:"_shards"`
	Hits     struct {
		Total struct{ Value uint64 }
		Hits  []struct {
			ID string `json:"_id"`
		}
	}
	Aggregations struct {
		Terms struct {
			Buckets map[string]struct {
				Count uint64 `json:"doc_count"`
			}
		}
		Length struct{ Value *float64 }
	}
}

// errPartial is the error for an answer that leaves out a part of the index.
var errPartial = errors.New("the search engine could not search all of the index in time")

// find asks for documents of an account that satisfy conditions.
func (x *Index) find(ctx context.Context, account store.AccountNumber, body object) (*found, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	body["_source"] = false
	body["timeout"] = strconv.FormatInt(findTimeout.Milliseconds(), 10) + "ms"
	answer := new(found)
	parameters := url.Values{"routing": {routing(account)}, "allow_partial_search_results": {"false"}}
	if err := x.callJSON(ctx, http.MethodPost, "/"+x.name+"/_search", parameters, body, answer); err != nil {
		return nil, err
	}
	if answer.TimedOut || answer.Shards.Failed > 0 {
		return nil, errPartial
	}
	return answer, nil
}

// ids returns the exchanges of an answer. One with a copy of another account is an error.
func (f *found) ids(account store.AccountNumber) ([]string, error) {
	var ids []string
	for _, hit := range f.Hits.Hits {
		id, ok := strings.CutPrefix(hit.ID, documentID(account, ""))
		if !ok {
			return nil, errors.New("the search engine answers with a turn of another account")
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func routing(account store.AccountNumber) string { return strconv.FormatUint(uint64(account), 10) }

// documentID returns the id of a copy. Ids of exchanges are unique in an account only.
func documentID(account store.AccountNumber, exchange string) string {
	return routing(account) + "-" + exchange
}

// Measure counts the turns of the account that satisfy each scored condition.
func (x *Index) Measure(ctx context.Context, account store.AccountNumber, w *search.Wanted) error {
	terms := make(object, len(w.Scored))
	for i := range w.Scored {
		terms[strconv.Itoa(i)] = satisfies(&w.Scored[i])
	}
	aggregations := object{"length": object{"avg": object{"field": "length"}}}
	if len(terms) > 0 {
		aggregations["terms"] = object{"filters": object{"filters": terms}}
	}
	answer, err := x.find(ctx, account, object{
		"size": 0, "track_total_hits": true, "query": all(of(account)), "aggs": aggregations,
	})
	if err != nil {
		return err
	}
	w.Corpus = lexical.Corpus{Documents: answer.Hits.Total.Value, Frequencies: make(map[string]uint64, len(w.Scored))}
	for i := range w.Scored {
		bucket, ok := answer.Aggregations.Terms.Buckets[strconv.Itoa(i)]
		if !ok {
			return fmt.Errorf("the search engine has counted %d of %d terms", len(answer.Aggregations.Terms.Buckets), len(terms))
		}
		w.Corpus.Frequencies[w.Scored[i].Key()] = bucket.Count
	}
	w.MeanLength = 0
	if mean := answer.Aggregations.Length.Value; mean != nil {
		w.MeanLength = *mean
	}
	return nil
}

// Words returns the turns with the heaviest terms, or with the most of what is demanded.
func (x *Index) Words(ctx context.Context, account store.AccountNumber, w *search.Wanted) ([]string, error) {
	filters := within(account, w)
	body := object{"track_total_hits": false}
	switch {
	case len(w.Scored) == 0:
		body["size"], body["query"] = listedTurns, all(filters...)
		body["sort"] = []object{{"exchange": "desc"}}
	case w.Demand != nil:
		var parts, names []object
		for _, part := range w.Parts() {
			parts = append(parts, weighing(&part.Holds, part.Weight))
			if part.Name {
				names = append(names, satisfies(&part.Holds))
			}
		}
		if w.Demand.Name {
			filters = append(filters, anyOf(names))
		}
		body["size"], body["query"] = demandedTurns, heaviest(filters, parts)
		body["sort"] = bestFirst
	default:
		terms := make([]object, len(w.Scored))
		for i := range w.Scored {
			terms[i] = weighing(&w.Scored[i], w.Corpus.Weight(&w.Scored[i]))
		}
		// The divisor is that of BM25 for a term that occurs once, without its constants.
		body["size"], body["query"] = heaviestTurns, object{"script_score": object{
			"query":  heaviest(filters, terms),
			"script": object{"source": "_score / (2.33 + doc['length'].value / params.mean)", "params": object{"mean": max(w.MeanLength, 1)}},
		}}
		body["sort"] = bestFirst
	}
	answer, err := x.find(ctx, account, body)
	if err != nil {
		return nil, err
	}
	return answer.ids(account)
}

var bestFirst = []object{{"_score": "desc"}, {"exchange": "desc"}}

// Alike returns the turns with the nearest vectors, by the engine's graph or, of few turns, by all their vectors.
func (x *Index) Alike(ctx context.Context, account store.AccountNumber, w *search.Wanted, q *search.VectorQuery) ([]string, error) {
	dimensions := len(q.Codes)
	if dimensions > mostDimensions {
		return nil, fmt.Errorf("the search engine takes vectors of at most %d dimensions, not %d", mostDimensions, dimensions)
	}
	if err := x.hasVectors(ctx, dimensions); err != nil {
		return nil, err
	}
	filters := append(within(account, w), object{"term": object{"embedder": q.Embedder}})
	answer, err := x.find(ctx, account, object{
		"track_total_hits": false, "size": alikeTurns, "query": object{"knn": object{vectorField(dimensions): object{
			"vector": q.Codes, "k": alikeTurns, "filter": all(filters...),
		}}},
	})
	if err != nil {
		return nil, err
	}
	return answer.ids(account)
}

// within returns what candidates of an account satisfy: the account, what is demanded, and the bounds.
func within(account store.AccountNumber, w *search.Wanted) []object {
	filters := []object{of(account)}
	if w.Demanded != nil {
		filters = append(filters, satisfies(w.Demanded))
	}
	bounds := object{}
	if !w.Since.IsZero() {
		bounds["gte"] = w.Since.UnixMicro()
	}
	if !w.Until.IsZero() {
		bounds["lt"] = w.Until.Add(time.Microsecond - time.Nanosecond).UnixMicro()
	}
	if len(bounds) > 0 {
		filters = append(filters, object{"range": object{"began": bounds}})
	}
	return filters
}

func of(account store.AccountNumber) object { return object{"term": object{"account": account}} }

func all(filters ...object) object { return object{"bool": object{"filter": filters}} }

func anyOf(ways []object) object {
	if len(ways) == 0 {
		return object{"match_none": object{}}
	}
	return object{"bool": object{"should": ways, "minimum_should_match": 1}}
}

// heaviest scores documents that satisfy filters by the weighing queries that they satisfy, at least one.
func heaviest(filters, weighing []object) object {
	if len(weighing) == 0 {
		return object{"match_none": object{}}
	}
	return object{"bool": object{"filter": filters, "should": weighing, "minimum_should_match": 1}}
}

// weighing adds a weight to the score of documents that satisfy a condition.
func weighing(c *lexical.Condition, weight float64) object {
	return object{"constant_score": object{"filter": satisfies(c), "boost": weight}}
}

// satisfies returns the query for a condition.
func satisfies(c *lexical.Condition) object {
	switch {
	case c.Term != "":
		return object{"term": object{"terms": catalog.StoredTerm(c.Term)}}
	case c.Prefix != "":
		return object{"prefix": object{"terms": catalog.StoredTerm(c.Prefix)}}
	case c.Not != nil:
		return object{"bool": object{"must_not": []object{satisfies(c.Not)}}}
	case len(c.All) > 0:
		return all(each(c.All)...)
	}
	return anyOf(each(c.Any))
}

func each(conditions []lexical.Condition) []object {
	return slices.Collect(func(yield func(object) bool) {
		for i := range conditions {
			if !yield(satisfies(&conditions[i])) {
				return
			}
		}
	})
}
