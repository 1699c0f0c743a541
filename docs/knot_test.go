package docs_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// mostKnotted is how many files of a package may refer to each other in circles.
const mostKnotted = 12

// knotted are the packages with larger circles. Those that read well as they are may have 21; for the others the number is
// to become smaller.
var knotted = map[string]int{
	"bench/provider":       21,
	"codec/chat":           21,
	"codec/crossing":       21,
	"codec/gemini":         21,
	"codec/responses":      21,
	"store/redact":         21,
	"store/search/lexical": 21,
}

// In a package whose files refer to each other in circles, no file can be understood alone.
func TestNoPackageIsOneKnot(t *testing.T) {
	folders := map[string][]string{}
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			folders[path.Dir(name)] = append(folders[path.Dir(name)], name)
		}
	}
	for folder, names := range folders {
		most := max(mostKnotted, knotted[folder])
		if knot := largestKnot(t, folder, names); len(knot) > most {
			t.Errorf("%s: %d files refer to each other in circles, more than %d: %s", folder, len(knot), most, strings.Join(knot, " "))
		}
	}
}

// emptyPackages stands for every imported package: references within one package do not need them.
type emptyPackages struct{}

func (emptyPackages) Import(p string) (*types.Package, error) {
	empty := types.NewPackage(p, path.Base(p))
	empty.MarkComplete()
	return empty, nil
}

// largestKnot returns the largest group of files of a package each of which leads to all others by references.
func largestKnot(t *testing.T, folder string, names []string) []string {
	t.Helper()
	positions := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		if built, _ := build.Default.MatchFile(filepath.Join(root, folder), path.Base(name)); !built {
			continue
		}
		file, err := parser.ParseFile(positions, name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Importer: emptyPackages{}, Error: func(error) {}, FakeImportC: true}
	checked, _ := check.Check(folder, positions, parsed, info) // the errors are those of the empty packages
	leads := map[string]map[string]bool{}
	for used, object := range info.Uses {
		if object.Pkg() != checked {
			continue
		}
		from, to := path.Base(positions.Position(used.Pos()).Filename), path.Base(positions.Position(object.Pos()).Filename)
		if leads[from] == nil {
			leads[from] = map[string]bool{}
		}
		leads[from][to] = true
	}
	return largestCircle(leads)
}

// largestCircle returns the largest strongly connected component of a graph, by Tarjan's algorithm.
func largestCircle(leads map[string]map[string]bool) (largest []string) {
	index, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(at string) {
		index[at], low[at] = len(index), len(index)
		stack, open[at] = append(stack, at), true
		for next := range leads[at] {
			if _, seen := index[next]; !seen {
				visit(next)
				low[at] = min(low[at], low[next])
			} else if open[next] {
				low[at] = min(low[at], index[next])
			}
		}
		if low[at] < index[at] {
			return
		}
		for i := len(stack) - 1; ; i-- {
			open[stack[i]] = false
			if stack[i] == at {
				if len(stack)-i > len(largest) {
					largest = append([]string(nil), stack[i:]...)
				}
				stack = stack[:i]
				return
			}
		}
	}
	for at := range leads {
		if _, seen := index[at]; !seen {
			visit(at)
		}
	}
	return largest
}

// mostOfAType is how many methods a type may have, exported or not.
const mostOfAType = 40

// manyMethods are the types with more. The codecs' are one function for each kind of item of a format; for the others the
// number is to become smaller.
var manyMethods = map[string]int{
	"codec/chat.requestWriter":      53,
	"codec/responses.streamDecoder": 48,
	"codec/chat.decoder":            46,
	"codec/messages.requestEncoder": 43,
	"codec/gemini.writer":           41,
	"store/catalog.database":        77,
	"store/search.Index":            46,
}

// Of a type with more methods than that, no reader knows what may change it.
func TestNoTypeIsWhatEverythingHangsOn(t *testing.T) {
	methods := map[string]int{}
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv != nil {
				methods[path.Dir(name)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	for name, n := range methods {
		if n > max(mostOfAType, manyMethods[name]) {
			t.Errorf("%s has %d methods, more than %d", name, n, max(mostOfAType, manyMethods[name]))
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
