package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// schemaTypes are the types that answer and are decoded into, by the name of their schema in docs/api/openapi.yaml. Where the
// file has several schemas for one type, they are answers that leave members out.
var schemaTypes = map[string]reflect.Type{
	"ExchangeChange": reflect.TypeFor[api.ExchangeChange](), "SessionChange": reflect.TypeFor[api.SessionChange](), "SessionMerge": reflect.TypeFor[api.SessionMerge](), "SessionSplit": reflect.TypeFor[api.SessionSplit](),
	"PageOfSessions": reflect.TypeFor[api.List[api.Session]](), "PageOfTurns": reflect.TypeFor[api.List[api.Turn]](), "PageOfExchanges": reflect.TypeFor[api.List[api.Exchange]](),
	"PageOfAccounts": reflect.TypeFor[api.Page[api.Account]](), "PageOfKeys": reflect.TypeFor[api.Page[store.Key]](), "PageOfAudit": reflect.TypeFor[api.Page[api.AuditEntry]](),
	"PageOfListedExchanges": reflect.TypeFor[api.Page[record.ExchangeInfo]](), "PageOfProviders": reflect.TypeFor[api.Page[api.Provider]](), "PageOfOrigins": reflect.TypeFor[api.Page[string]](),
	"Account": reflect.TypeFor[api.Account](), "AccountBudget": reflect.TypeFor[store.Account](), "AccountDeletion": reflect.TypeFor[store.AccountDeletion](),
	"AuditEntry": reflect.TypeFor[api.AuditEntry](), "BudgetChange": reflect.TypeFor[api.BudgetChange](), "CheckLine": reflect.TypeFor[api.CheckLine](),
	"CheckReport": reflect.TypeFor[store.CheckReport](), "Cluster": reflect.TypeFor[admin.Cluster](), "Shipping": reflect.TypeFor[cluster.Shipping](), "Following": reflect.TypeFor[cluster.Identity](), "Arriving": reflect.TypeFor[cluster.Arriving](),
	"Context": reflect.TypeFor[api.Context](), "ContextBreak": reflect.TypeFor[api.ContextBreak](), "ContextPart": reflect.TypeFor[api.ContextPart](),
	"Costs": reflect.TypeFor[api.Costs](), "CostLine": reflect.TypeFor[api.CostLine](), "ToolCost": reflect.TypeFor[api.ToolCost](), "Forecast": reflect.TypeFor[api.Forecast](), "CacheBreak": reflect.TypeFor[api.CacheBreak](), "CacheReason": reflect.TypeFor[api.CacheReason](), "CacheReport": reflect.TypeFor[api.CacheReport](), "Story": reflect.TypeFor[recall.Story](), "Quote": reflect.TypeFor[recall.Quote](), "Run": reflect.TypeFor[recall.Run](),
	"KeyImport": reflect.TypeFor[api.KeyImport](), "PageOfCreatedKeys": reflect.TypeFor[api.Page[api.CreatedKey]](), "CreatedKey": reflect.TypeFor[api.CreatedKey](), "Credential": reflect.TypeFor[api.Credential](), "Erasure": reflect.TypeFor[api.Erasure](), "ErasurePlace": reflect.TypeFor[record.ErasurePlace](), "Event": reflect.TypeFor[record.Event](),
	"Exchange": reflect.TypeFor[api.Exchange](), "Finding": reflect.TypeFor[store.Finding](), "ListedExchange": reflect.TypeFor[record.ExchangeInfo](),
	"Holder": reflect.TypeFor[api.Holder](), "HookAnswer": reflect.TypeFor[api.HookAnswer](), "HookOutput": reflect.TypeFor[api.HookOutput](),
	"Import": reflect.TypeFor[api.Import](), "Invitation": reflect.TypeFor[api.Invitation](), "Invited": reflect.TypeFor[api.Invited](),
	"Key": reflect.TypeFor[store.Key](), "KeyUpdate": reflect.TypeFor[api.KeyUpdate](), "LimitChange": reflect.TypeFor[api.LimitChange](), "Limits": reflect.TypeFor[store.Limits](),
	"Message": reflect.TypeFor[record.Message](), "NewAccount": reflect.TypeFor[api.NewAccount](), "NewErasure": reflect.TypeFor[api.NewErasure](), "NewKey": reflect.TypeFor[api.NewKey](),
	"Normalized": reflect.TypeFor[api.Normalized](), "Process": reflect.TypeFor[api.Process](), "Provider": reflect.TypeFor[api.Provider](),
	"RecallRequest": reflect.TypeFor[api.RecallRequest](), "Recalled": reflect.TypeFor[api.Recalled](), "Retention": reflect.TypeFor[store.Retention](), "Rotation": reflect.TypeFor[api.Rotation](),
	"SearchAnswer": reflect.TypeFor[search.Answer](), "SearchRequest": reflect.TypeFor[search.Request](), "Status": reflect.TypeFor[search.Status](), "Selection": reflect.TypeFor[record.Selection](),
	"Session": reflect.TypeFor[api.Session](), "SessionSummary": reflect.TypeFor[record.SessionSummary](), "Stats": reflect.TypeFor[api.Stats](),
	"Translation": reflect.TypeFor[api.Translation](), "Turn": reflect.TypeFor[api.Turn](), "Usage": reflect.TypeFor[api.Usage](), "UsageLine": reflect.TypeFor[api.UsageLine](),
}

func TestEveryTypeHasTheMembersThatTheFileSays(t *testing.T) {
	schemas := readDescription(t).document.Components.Schemas
	for name, of := range schemaTypes {
		schema := schemas[name]
		if schema == nil {
			t.Errorf("%s is no schema of the file", name)
			continue
		}
		described := slices.Sorted(maps.Keys(schema.Value.Properties))
		if has := membersOf(of); !slices.Equal(has, described) {
			t.Errorf("%s: %s has the members %v, the file %v", name, of, has, described)
		}
	}
}

// No shape is written down beside those of the package.
func TestEveryTypeOfThePackageIsDescribed(t *testing.T) {
	within := reflect.TypeFor[api.Session]().PkgPath()
	known := map[string]bool{"KeySettings": true, "CreatedKey": true, "Cause": true} // parts of NewKey, KeyUpdate and CostLine; a type of the store
	for _, of := range schemaTypes {
		if of.PkgPath() == within {
			bare, _, _ := strings.Cut(of.Name(), "[")
			known[bare] = true
		}
	}
	for _, name := range typesDeclaredIn(t, ".") {
		if !known[name] {
			t.Errorf("api.%s has no schema in the file", name)
		}
	}
}

// membersOf returns the names of a type's members in JSON, with those of what it embeds.
func membersOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case name != "":
			names = append(names, name)
		case field.Anonymous && field.Type.Kind() == reflect.Pointer:
			names = append(names, membersOf(field.Type.Elem())...)
		case field.Anonymous:
			names = append(names, membersOf(field.Type)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// typesDeclaredIn returns the exported struct types that a package's files declare.
func typesDeclaredIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	ok(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		ok(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, is := n.(*ast.TypeSpec); is && spec.Name.IsExported() {
				names = append(names, spec.Name.Name)
			}
			return true
		})
	}
	return names
}
