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
		reflect.TypeFor[genai.GenerateContentResponse](), reflect.TypeFor[genai.GenerateContentResponse](), nil,
	},
	codec.Embeddings: {reflect.TypeFor[openai.CreateEmbeddingResponse](), nil, reflect.TypeFor[openaiError]()},
}

// openaiError is the body of an error, which the SDK unwraps before it decodes it.
type openaiError struct {
	Error shared.ErrorObject `json:"error" api:"required"`
}

// Answer returns where a complete answer of a format deviates from the published types: paths with what is wrong there.
func Answer(f codec.Format, body []byte) []string { return problems("", body, forms[f].answer) }

// Event is [Answer] for the data of one event of a stream.
func Event(f codec.Format, data []byte) []string { return problems("", data, forms[f].event) }

// Error is [Answer] for the body of an error.
func Error(f codec.Format, body []byte) []string { return problems("", body, forms[f].failure) }

func problems(at string, value json.RawMessage, t reflect.Type) []string {
	value = bytes.TrimSpace(value)
	switch t.Kind() {
	case reflect.Pointer:
		return problems(at, value, t.Elem())
	case reflect.Interface:
		return nil
	case reflect.Struct:
		if _, own := reflect.PointerTo(t).MethodByName("AsAny"); own {
			return ofVariant(at, value, t)
		}
		if strings.HasSuffix(t.Name(), "Union") {
			return ofAnyVariant(at, value, t)
		}
		if t.NumField() > 0 && t.PkgPath() != "time" {
			return ofObject(at, value, t)
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // else a text in base64
			return ofList(at, value, t.Elem())
		}
	case reflect.Map:
		return ofMap(at, value, t.Elem())
	}
	if err := json.Unmarshal(value, reflect.New(t).Interface()); err != nil {
		return []string{fmt.Sprintf("%s: %s is no %s", at, value, t)}
	}
	return nil
}

// ofVariant checks a value against the variant that it names.
func ofVariant(at string, value json.RawMessage, t reflect.Type) []string {
	union := reflect.New(t)
	if err := json.Unmarshal(value, union.Interface()); err != nil {
		return []string{fmt.Sprintf("%s: %v", at, err)}
	}
	variant := union.MethodByName("AsAny").Call(nil)[0]
	if variant.IsNil() {
		return []string{fmt.Sprintf("%s: %s is no variant of %s", at, value, t.Name())}
	}
	return problems(at, value, variant.Elem().Type())
}

// ofAnyVariant checks a value against the variants of a union whose values do not name theirs, and returns the problems
// with the most similar one.
func ofAnyVariant(at string, value json.RawMessage, t reflect.Type) []string {
	var least []string
	try := func(variant reflect.Type) {
		if found := problems(at, value, variant); least == nil || len(found) < len(least) {
			least = append([]string{}, found...)
		}
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("json") == ",inline" {
			try(f.Type)
		}
	}
	for i := range t.NumMethod() {
		if m := t.Method(i); strings.HasPrefix(m.Name, "As") && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 {
			try(m.Type.Out(0))
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
		found = append(found, problems(fmt.Sprintf("%s[%d]", at, i), element, t)...)
	}
	return found
}

func ofMap(at string, value json.RawMessage, t reflect.Type) (found []string) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return []string{fmt.Sprintf("%s: %s is no object", at, value)}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		found = append(found, problems(at+"."+name, members[name], t)...)
	}
	return found
}

func ofObject(at string, value json.RawMessage, t reflect.Type) (found []string) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || members == nil {
		return []string{fmt.Sprintf("%s: %s is no object", at, value)}
	}
	others := reflect.Type(nil) // what members are that have no field
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("api") == "extrafields" {
			others = f.Type.Elem()
		}
		if name == "" || name == "-" {
			continue
		}
		member, there := members[name]
		delete(members, name)
		found = append(found, ofMember(at+"."+name, member, there, f)...)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if others == nil {
			found = append(found, fmt.Sprintf("%s.%s: %s has no such member", at, name, t.Name()))
		} else {
			found = append(found, problems(at+"."+name, members[name], others)...)
		}
	}
	return found
}

func ofMember(at string, member json.RawMessage, there bool, f reflect.StructField) []string {
	api, constant := f.Tag.Get("api"), f.Tag.Get("default")
	switch {
	case !there && (api == "required" || constant != ""):
		return []string{at + ": it is required, and missing"}
	case !there:
		return nil
	case constant != "" && string(bytes.Trim(member, `"`)) != constant:
		return []string{fmt.Sprintf("%s: it is %s, and always %s", at, member, constant)}
	case string(member) != "null":
		return problems(at, member, f.Type)
	case api == "" && constant == "" && !mayBeNull(f.Type):
		return []string{at + ": it may be missing, but not be null"}
	}
	return nil
}

// mayBeNull reports whether null is allowed for a type that does not specify it.
func mayBeNull(t reflect.Type) bool { return t.Kind() == reflect.Interface }
