// Package api defines the requests and answers of the memory API (/v1/memory) and the management API (/v1/admin), as
// docs/api/openapi.yaml describes them. Handlers encode these types, and the command line and other clients decode
// them, so each shape is defined once. Times are RFC 3339, durations nanoseconds, sizes bytes. The store's record types
// are embedded unchanged.
package api

import "github.com/mnemeproxy/mneme/store"

// List is a page of a list in the memory API.
type List[T any] struct {
	Object  string  `json:"object"` // "list"
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`

	Degraded []string `json:"degraded,omitempty"` // what the list lacks: "centre"
}

// Lacking returns the list of a memory that is a part of another one.
func (l List[T]) Lacking(whole string) any {
	l.Degraded = append(l.Degraded, whole)
	return l
}

// NewList returns a page; id returns the id of an entry.
func NewList[T any](data []T, hasMore bool, id func(*T) string) List[T] {
	list := List[T]{Object: "list", Data: data, HasMore: hasMore}
	if n := len(data); n > 0 {
		first, last := id(&data[0]), id(&data[n-1])
		list.FirstID, list.LastID = &first, &last
	}
	return list
}

// Page is a page of a list in the management API.
type Page[T any] struct {
	Data    []T  `json:"data"`
	HasMore bool `json:"has_more"`
}

// CheckLine is a line of the answer to a check: each finding as it is made, and finally the report. Without a report,
// the check did not finish.
type CheckLine struct {
	Finding *store.Finding     `json:"finding,omitempty"`
	Report  *store.CheckReport `json:"report,omitempty"`
}
