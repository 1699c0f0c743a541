// Package published checks answers against the types of the official SDKs, which are generated from the descriptions
// that providers publish. Only tests use it.
//
// It reports an unknown member, a required member that is missing, a value of the wrong kind, and a constant with the
// wrong value. The Gemini types are written by hand and require nothing, so for them it finds only the first and the
// third.
package published

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/genai"

	"github.com/mnemeproxy/mneme/codec"
)

// form has the types of a format's answers.
type form struct{ answer, event, failure reflect.Type }

var forms = map[codec.Format]form{
	codec.Chat: {
		reflect.TypeFor[openai.ChatCompletion](), reflect.TypeFor[openai.ChatCompletionChunk](), reflect.TypeFor[openaiError](),
	},
	codec.Responses: {
		reflect.TypeFor[responses.Response](), reflect.TypeFor[responses.ResponseStreamEventUnion](), reflect.TypeFor[openaiError](),
	},
	codec.Messages: {
		reflect.TypeFor[anthropic.Message](), reflect.TypeFor[anthropic.MessageStreamEventUnion](), reflect.TypeFor[anthropic.ErrorResponse](),
	},
	codec.Gemini: {
		reflect.TypeFor[genai.GenerateContentResponse](), reflect.TypeFor[genai.GenerateContentResponse](), reflect.TypeFor[googlesError](),
	},
	codec.Embeddings: {reflect.TypeFor[openai.CreateEmbeddingResponse](), nil, reflect.TypeFor[openaiError]()},
}

// openaiError is the body of an error, which the SDK unwraps before it decodes it.
type openaiError struct {
	Error shared.ErrorObject `json:"error" api:"required"`
}

// googlesError is the body of an error of Google's.
type googlesError struct {
	Error genai.APIError `json:"error" api:"required"`
}

// Answer returns where a complete answer of a format deviates from the published types: paths with what is wrong there.
func Answer(f codec.Format, body []byte) []string {
	found := problems("", body, forms[f].answer)
	if f == codec.Responses {
		found = append(found, openProblems("", body)...)
	}
	return found
}

// Event is [Answer] for the data of one event of a stream.
func Event(f codec.Format, data []byte) []string {
	found := problems("", data, forms[f].event)
	var event struct{ Response json.RawMessage }
	if f == codec.Responses && json.Unmarshal(data, &event) == nil && event.Response != nil {
		found = append(found, openProblems(".response", event.Response)...)
	}
	return found
}

// Error is [Answer] for the body of an error.
func Error(f codec.Format, body []byte) []string { return problems("", body, forms[f].failure) }

// shape says how values of a type are checked. It is found once, because reflection takes longer than a check.
type shape struct {
	check    func(at string, value json.RawMessage, t reflect.Type) []string
	fields   []field        // of an object
	others   reflect.Type   // what members of an object are that have no field; nil if there must be none
	variants []reflect.Type // of a union whose values do not name theirs
	named    sync.Map       // the variants of other unions by what names them, see [discriminator]
}

// field is what the tags of a struct's field say about a member.
type field struct {
	name, api, constant string
	of                  reflect.Type
}

// discriminator has the members that name a variant.
type discriminator struct{ Type, Name string }

var shapes sync.Map // *shape by type

func shapeOf(t reflect.Type) *shape {
	if known, is := shapes.Load(t); is {
		return known.(*shape)
	}
	found, _ := shapes.LoadOrStore(t, newShape(t))
	return found.(*shape)
}

func newShape(t reflect.Type) *shape {
	s := &shape{check: ofValue}
	switch t.Kind() {
	case reflect.Pointer:
		s.check = func(at string, value json.RawMessage, t reflect.Type) []string { return problems(at, value, t.Elem()) }
	case reflect.Interface:
		s.check = func(string, json.RawMessage, reflect.Type) []string { return nil }
	case reflect.Struct:
		if _, own := reflect.PointerTo(t).MethodByName("AsAny"); own {
			s.check = ofVariant
		} else if strings.HasSuffix(t.Name(), "Union") {
			s.check, s.variants = ofAnyVariant, variants(t)
		} else if t.NumField() > 0 && t.PkgPath() != "time" {
			s.check = ofObject
			s.fields, s.others = fields(t)
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // else a text in base64
			s.check = ofList
		}
	case reflect.Map:
		s.check = ofMap
	}
	return s
}

func variants(t reflect.Type) (all []reflect.Type) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("json") == ",inline" {
			all = append(all, f.Type)
		}
	}
	for i := range t.NumMethod() {
		if m := t.Method(i); strings.HasPrefix(m.Name, "As") && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 {
			all = append(all, m.Type.Out(0))
		}
	}
	return all
}

func fields(t reflect.Type) (all []field, others reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("api") == "extrafields" {
			others = f.Type.Elem()
		}
		if name != "" && name != "-" {
			all = append(all, field{name, f.Tag.Get("api"), f.Tag.Get("default"), f.Type})
		}
	}
	return all, others
}

func problems(at string, value json.RawMessage, t reflect.Type) []string {
	return shapeOf(t).check(at, bytes.TrimSpace(value), t)
}

func ofValue(at string, value json.RawMessage, t reflect.Type) []string {
	if err := json.Unmarshal(value, reflect.New(t).Interface()); err != nil {
		return []string{fmt.Sprintf("%s: %s is no %s", at, value, t)}
	}
	return nil
}

// ofVariant checks a value against the variant that it names.
func ofVariant(at string, value json.RawMessage, t reflect.Type) []string {
	var names discriminator
	if err := json.Unmarshal(value, &names); err != nil {
		return []string{fmt.Sprintf("%s: %v", at, err)}
	}
	named := &shapeOf(t).named
	variant, known := named.Load(names)
	if !known {
		union := reflect.New(t)
		if err := json.Unmarshal(value, union.Interface()); err != nil {
			return []string{fmt.Sprintf("%s: %v", at, err)}
		}
		found := union.MethodByName("AsAny").Call(nil)[0]
		if found.IsNil() {
			return []string{fmt.Sprintf("%s: %s is no variant of %s", at, value, t.Name())}
		}
		variant, _ = named.LoadOrStore(names, found.Elem().Type())
	}
	return problems(at, value, variant.(reflect.Type))
}

// ofAnyVariant checks a value against the variants of a union whose values do not name theirs, and returns the problems
// with the most similar one.
func ofAnyVariant(at string, value json.RawMessage, t reflect.Type) []string {
	var least []string
	for i, variant := range shapeOf(t).variants {
		found := problems(at, value, variant)
		if len(found) == 0 {
			return nil
		}
		if i == 0 || len(found) < len(least) {
			least = found
		}
	}
	return least
}

func ofList(at string, value json.RawMessage, t reflect.Type) (found []string) {
	var list []json.RawMessage
	if err := json.Unmarshal(value, &list); err != nil {
		return []string{fmt.Sprintf("%s: %s is no list", at, value)}
	}
	for i, element := range list {
		found = append(found, problems(fmt.Sprintf("%s[%d]", at, i), element, t.Elem())...)
	}
	return found
}

func ofMap(at string, value json.RawMessage, t reflect.Type) (found []string) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return []string{fmt.Sprintf("%s: %s is no object", at, value)}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		found = append(found, problems(at+"."+name, members[name], t.Elem())...)
	}
	return found
}

func ofObject(at string, value json.RawMessage, t reflect.Type) (found []string) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || members == nil {
		return []string{fmt.Sprintf("%s: %s is no object", at, value)}
	}
	s := shapeOf(t)
	for i := range s.fields {
		f := &s.fields[i]
		member, there := members[f.name]
		delete(members, f.name)
		found = append(found, ofMember(at, member, there, f)...)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if s.others == nil {
			found = append(found, fmt.Sprintf("%s.%s: %s has no such member", at, name, t.Name()))
		} else {
			found = append(found, problems(at+"."+name, members[name], s.others)...)
		}
	}
	return found
}

func ofMember(at string, member json.RawMessage, there bool, f *field) []string {
	switch {
	case !there && (f.api == "required" || f.constant != ""):
		return []string{at + "." + f.name + ": it is required, and missing"}
	case !there:
		return nil
	case f.constant != "" && string(bytes.Trim(member, `"`)) != f.constant:
		return []string{fmt.Sprintf("%s.%s: it is %s, and always %s", at, f.name, member, f.constant)}
	case string(member) != "null":
		return problems(at+"."+f.name, member, f.of)
	case f.api == "" && f.constant == "" && !mayBeNull(f.of):
		return []string{at + "." + f.name + ": it may be missing, but not be null"}
	}
	return nil
}

// mayBeNull reports whether null is allowed for a type that does not specify it.
func mayBeNull(t reflect.Type) bool { return t.Kind() == reflect.Interface }
