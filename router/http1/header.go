package http1

import (
	"net/http"
	"slices"
)

// Field is one line of a head.
type Field struct{ Name, Value string }

// Header is the fields of a head, by canonical names, which all methods expect. A head has some twenty fields: a list
// of them is made and searched in less time than a map.
type Header []Field

// HeaderOf returns the same fields as a list.
func HeaderOf(h http.Header) Header {
	list := make(Header, 0, len(h))
	for name, values := range h {
		for _, value := range values {
			list = append(list, Field{name, value})
		}
	}
	return list
}

// HTTP returns the same fields for net/http.
func (h Header) HTTP() http.Header {
	m := make(http.Header, len(h))
	for _, f := range h {
		m[f.Name] = append(m[f.Name], f.Value)
	}
	return m
}

// Has reports whether there is a field with that name.
func (h Header) Has(name string) bool {
	return slices.ContainsFunc(h, func(f Field) bool { return f.Name == name })
}

// Get returns the first value of a name, "" if there is none.
func (h Header) Get(name string) string {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value
		}
	}
	return ""
}

// Values returns all values of a name.
func (h Header) Values(name string) (values []string) {
	for i := range h {
		if h[i].Name == name {
			values = append(values, h[i].Value)
		}
	}
	return values
}

// Set gives a name one value.
func (h *Header) Set(name, value string) {
	h.Del(name)
	*h = append(*h, Field{name, value})
}

// Del removes the fields with a name.
func (h *Header) Del(name string) {
	*h = slices.DeleteFunc(*h, func(f Field) bool { return f.Name == name })
}
