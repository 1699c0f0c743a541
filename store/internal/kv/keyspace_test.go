package kv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestFormatPageNamesEveryKindOfKey reads the kinds from the source, so that none can be added without its description.
func TestFormatPageNamesEveryKindOfKey(t *testing.T) {
	page, err := os.ReadFile("../../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "keyspace.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Space") {
			return true
		}
		kind := strings.Trim(spec.Values[0].(*ast.BasicLit).Value, "'")
		if other, taken := seen[kind]; taken {
			t.Errorf("%s and %s are both %s", spec.Names[0].Name, other, kind)
		}
		seen[kind] = spec.Names[0].Name
		if !strings.Contains(string(page), "| `"+kind+"` ") {
			t.Errorf("FORMAT.md does not describe %s (%s)", kind, spec.Names[0].Name)
		}
		return true
	})
	if len(seen) < 15 {
		t.Errorf("only %d kinds found in keyspace.go", len(seen))
	}
}
