package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Code that depends on a fact about a format reads the traits of the format. A comparison with a format's name is knowledge about
// that format in a place where nobody who adds another one will look for it: it may stand in the format's own folder, and
// nowhere else. The load tests under bench and the fuzz targets speak the formats by themselves, so that they do not agree
// with a mistake of the codecs.
func TestNobodyAsksWhichFormatItIs(t *testing.T) {
	const root = ".."
	folder := map[string]string{"Chat": "codec/chat", "Responses": "codec/responses", "Messages": "codec/messages", "Gemini": "codec/gemini"}
	files := token.NewFileSet()
	read := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bench" || name == "fuzz" || path != root && strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		read++
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, found := range comparedFormats(file) {
			if format := found.Sel.Name; folder[format] != filepath.ToSlash(filepath.Dir(name)) {
				t.Errorf("%s compares with codec.%s: ask for a trait of the format (codec/traits.go)", files.Position(found.Pos()), format)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 200 {
		t.Fatalf("only %d files were read", read)
	}
}

// comparedFormats are the constants of formats that a file compares something with: with == and !=, in the cases of a
// switch, and as the keys of a map.
func comparedFormats(file *ast.File) (found []*ast.SelectorExpr) {
	note := func(e ast.Expr) {
		if call, ok := e.(*ast.CallExpr); ok { // the name of a format
			if method, ok := call.Fun.(*ast.SelectorExpr); ok {
				e = method.X
			}
		}
		if s, ok := e.(*ast.SelectorExpr); ok && isFormat(s) {
			found = append(found, s)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				note(n.X)
				note(n.Y)
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				note(e)
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					note(pair.Key)
				}
			}
		}
		return true
	})
	return found
}

func isFormat(s *ast.SelectorExpr) bool {
	of, ok := s.X.(*ast.Ident)
	if !ok || of.Name != "codec" {
		return false
	}
	switch s.Sel.Name {
	case "Chat", "Responses", "Messages", "Gemini":
		return true
	}
	return false
}
