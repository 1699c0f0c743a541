package opensearch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object.
type object = map[string]any

// described is an index as the service describes it.
type described struct {
	Mappings struct {
		Meta       meta `json:"_meta"`
		Properties map[string]struct {
			Type      string
			Dimension int
		}
	}
}

// meta is what the index says about its copies.
type meta struct {
	Centre string `json:"mneme_centre"` // whose memory they are of
	Fill   string `json:"mneme_fill"`
	Format int    `json:"mneme_format"`
}

// format is the version of the documents. Copies in another one are made again.
const format = 1

// manageTimeout is how long a request that makes or describes an index may take.
const manageTimeout = 30 * time.Second

// describe returns the index behind the alias, and its name there; "" if there is none.
func (x *Index) describe(ctx context.Context) (name string, d described, err error) {
	ctx, cancel := context.WithTimeout(ctx, manageTimeout)
	defer cancel()
	var found map[string]described
	err = x.callJSON(ctx, http.MethodGet, "/"+x.name, nil, nil, &found)
	if isMissing(err) {
		return "", d, nil
	}
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%q stands for %d indexes, and should be one", x.name, len(found))
	}
	for name, d = range found {
	}
	return name, d, err
}

// Fill returns what [Index.Begin] was last called with; "" if the index is not there, or is of another format.
func (x *Index) Fill(ctx context.Context) (string, error) {
	_, d, err := x.describe(ctx)
	if err != nil || d.Mappings.Meta.Format != format {
		return "", err
	}
	x.remember(&d)
	return d.Mappings.Meta.Fill, nil
}

// remember notes which vectors the index has fields for.
func (x *Index) remember(d *described) {
	mapped := make(map[int]bool)
	for name, property := range d.Mappings.Properties {
		if name == vectorField(property.Dimension) {
			mapped[property.Dimension] = true
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mapped = mapped
}

// errForeign is the error for an index with something else in it.
var errForeign = errors.New("the index that centre.search names holds something else, or the memory of another centre: name another one")

// Begin makes an empty index for the copies of a centre, instead of an earlier one of that centre.
func (x *Index) Begin(ctx context.Context, centre, fill string) error {
	name, d, err := x.describe(ctx)
	if err != nil {
		return err
	}
	if name != "" {
		if ours, err := x.replaceable(ctx, centre, name, &d); err != nil || !ours {
			return cmp.Or(err, errForeign)
		}
		if err := x.manage(ctx, http.MethodDelete, "/"+name, nil); err != nil && !isMissing(err) {
			return err
		}
	}
	x.remember(&described{})
	// The index is named after its fill, and reached by an alias: a request for an alias that is not there creates no index. Shards and
	// replicas are those of the service, or of an index template.
	return x.manage(ctx, http.MethodPut, "/"+x.name+"-"+strings.ToLower(fill), object{
		"aliases": object{x.name: object{}},
		"settings": object{
			"index.knn": true,
			// For so long a deleted copy is remembered, so that no earlier state that is still under way brings it back.
			"index.gc_deletes": "1h",
		},
		"mappings": object{
			"dynamic": "strict",
			"_meta":   meta{centre, fill, format},
			"_source": object{"excludes": []string{"terms", "vector_*"}}, // they are found by, and never read
			"properties": object{
				"account":  object{"type": "long"},
				"exchange": object{"type": "keyword"},
				"began":    object{"type": "long"}, // microseconds since 1970
				"length":   object{"type": "integer"},
				"terms":    object{"type": "keyword"},
				"embedder": object{"type": "keyword"},
			},
		},
	})
}

// replaceable reports whether an index may be deleted. Besides one of this centre that is an empty one with the name of the alias, without
// any field: a deletion that meets no alias leaves such an index.
func (x *Index) replaceable(ctx context.Context, centre, name string, d *described) (bool, error) {
	if name != x.name || len(d.Mappings.Properties) > 0 {
		return name != x.name && d.Mappings.Meta.Centre == centre, nil
	}
	turns, err := x.count(ctx)
	return turns == 0, err
}

func (x *Index) count(ctx context.Context) (int64, error) {
	var counted struct{ Count int64 }
	ctx, cancel := context.WithTimeout(ctx, manageTimeout)
	defer cancel()
	err := x.callJSON(ctx, http.MethodGet, "/"+x.name+"/_count", nil, nil, &counted)
	return counted.Count, err
}

func (x *Index) manage(ctx context.Context, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, manageTimeout)
	defer cancel()
	return x.callJSON(ctx, method, path, nil, body, nil)
}

// mostDimensions is the longest vector that Lucene's graphs take.
const mostDimensions = 16_000

func vectorField(dimensions int) string { return "vector_" + strconv.Itoa(dimensions) }

// hasVectors makes sure that the index has a field for vectors of a length.
func (x *Index) hasVectors(ctx context.Context, dimensions int) error {
	x.mu.Lock()
	known := x.mapped[dimensions]
	x.mu.Unlock()
	if known {
		return nil
	}
	// Stored values are signed bytes up to a factor for each vector, which a cosine is independent of.
	err := x.manage(ctx, http.MethodPut, "/"+x.name+"/_mapping", object{"properties": object{vectorField(dimensions): object{
		"type": "knn_vector", "dimension": dimensions, "data_type": "byte",
		"method": object{"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
	}}})
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mapped[dimensions] = true
	return nil
}

// Condition is the state of a service.
type Condition struct {
	Version      string
	Distribution string // "opensearch" for the supported one
	Centre       string // of the index; "": there is none, or it holds something else
	Expected     bool   // the index has the fields that this version makes
	Turns        int64  // in the index
}

// OldestVersion is the first version whose graphs take the vectors of all embedders.
const OldestVersion = "2.13"

// Supported reports whether the version is [OldestVersion] or later.
func (c *Condition) Supported() bool {
	var major, minor int
	_, err := fmt.Sscanf(c.Version, "%d.%d", &major, &minor)
	return err == nil && (major > 2 || major == 2 && minor >= 13)
}

// Examine returns the state of the service and the index.
func (x *Index) Examine(ctx context.Context) (c Condition, err error) {
	ctx, cancel := context.WithTimeout(ctx, manageTimeout)
	defer cancel()
	var service struct {
		Version struct{ Number, Distribution string }
	}
	if err := x.callJSON(ctx, http.MethodGet, "/", nil, nil, &service); err != nil {
		return c, err
	}
	c.Version, c.Distribution = service.Version.Number, service.Version.Distribution
	name, d, err := x.describe(ctx)
	if err != nil || name == "" {
		return c, err
	}
	c.Centre = d.Mappings.Meta.Centre
	c.Expected = d.Mappings.Meta.Format == format
	for field, kind := range map[string]string{"account": "long", "exchange": "keyword", "began": "long", "length": "integer", "terms": "keyword", "embedder": "keyword"} {
		c.Expected = c.Expected && d.Mappings.Properties[field].Type == kind
	}
	c.Turns, err = x.count(ctx)
	return c, err
}
