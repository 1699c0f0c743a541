package docs_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mnemeproxy/mneme"

// imports are those of each package, the module's own by their path below it. Those of tests are apart.
type imports struct{ product, tests []string }

// packages are all of the module's, by their path below it; "" is the command.
func packages(t *testing.T) map[string]imports {
	t.Helper()
	const format = `{{.ImportPath}};{{join .Imports " "}};{{join .TestImports " "}} {{join .XTestImports " "}}`
	list := exec.CommandContext(t.Context(), "go", "list", "-f", format, "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]imports{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), ";")
		all[within(fields[0])] = imports{below(fields[1]), below(fields[2])}
	}
	return all
}

func within(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func below(paths string) (all []string) {
	for path := range strings.FieldsSeq(paths) {
		all = append(all, within(path))
	}
	return all
}

// room is the top folder of a package; that of a library is its host.
func room(path string) string {
	room, _, _ := strings.Cut(path, "/")
	return room
}

func TestRoomsImportOnlyWhatTheArrowsAllow(t *testing.T) {
	may := map[string][]string{ // the picture in architecture.md
		"":       {"server", "bench"},
		"server": {"server", "router", "store", "codec"},
		"router": {"router", "codec"},
		"store":  {"store", "codec"},
		"codec":  {"codec"},
		"bench":  {"bench", "server", "router", "store", "codec"},
		"fuzz":   {"fuzz", "codec"},
		"docs":   {},
	}
	for path, imports := range packages(t) {
		allowed, known := may[room(path)]
		if !known {
			t.Errorf("%s: the pages do not know that folder", path)
		}
		for _, other := range imports.product {
			if _, ours := may[room(other)]; ours && !slices.Contains(allowed, room(other)) {
				t.Errorf("%s imports %s", path, other)
			}
		}
	}
}

// The store is built from its ground floor up: a floor imports those below it, and never the store that stands on all.
func TestTheFloorsOfTheStoreImportDownwards(t *testing.T) {
	const inside = "store/internal/"
	below := map[string][]string{ // the table in architecture.md
		"buffer":    {},
		"delta":     {},
		"short":     {"buffer", "delta"},
		"wake":      {},
		"kv":        {"buffer"},
		"kv/kvtest": {"kv"},
		"cache":     {},
		"blob":      {"buffer", "cache", "kv", "short"},
		"files":     {"kv"},
		"commit":    {"blob", "files", "kv", "wake"},
		"feed":      {"commit", "kv", "wake"},
		"journal":   {"blob", "buffer", "commit", "kv"},
		"sessions":  {"blob", "buffer", "commit", "feed", "files", "journal", "kv"},
		"backup":    {"kv", "blob"},
		"identity":  {"kv", "wake"},
		"notes":     {"blob", "cache", "identity", "kv"},
		"shipping":  {"blob", "commit", "identity", "journal", "kv", "wake"},
		"writing":   {"commit", "feed", "files", "identity", "journal", "kv", "notes", "sessions", "shipping"},
		"turns":     {"blob", "buffer", "cache", "commit", "feed", "files", "identity", "journal", "kv", "writing"},
		"recording": {"blob", "buffer", "commit", "feed", "identity", "kv", "turns", "writing"},
		"check":     {"blob", "commit", "feed", "files", "identity", "journal", "kv", "sessions", "turns", "writing"},
		"usage":     {"files", "kv"},
		"upkeep": {
			"blob", "commit", "files", "identity", "journal", "kv", "notes", "sessions", "shipping", "turns", "usage", "wake", "writing",
		},
		"contexttest": {},
	}
	for path, imports := range packages(t) {
		name, is := strings.CutPrefix(path, inside)
		if !is {
			continue
		}
		allowed, known := below[name]
		if !known {
			t.Errorf("%s: which floor of the store is it?", path)
		}
		for _, other := range imports.product {
			floor, internal := strings.CutPrefix(other, inside)
			if other == "store" || internal && !slices.Contains(allowed, floor) {
				t.Errorf("%s imports %s", path, other)
			}
		}
	}
}

// Records, and the rules that make conversations of them, are known without the engines that store them.
func TestRecordsAndRulesDependOnNoEngine(t *testing.T) {
	allowed := []string{"codec", "store/redact", "store/internal/kv", "store/internal/blob", "store/internal/buffer", "store/internal/delta"}
	for _, of := range []string{"store/record", "store/conversation"} {
		for _, other := range packages(t)[of].product {
			if ours := room(other) == "store" || room(other) == "server" || room(other) == "router"; ours && !slices.Contains(allowed, other) {
				t.Errorf("%s imports %s", of, other)
			}
		}
		allowed = append(allowed, "store/record", "store/private")
	}
}

func TestTheEdgeAloneImportsTheServerLibraries(t *testing.T) {
	for path, imports := range packages(t) {
		for _, library := range slices.Concat(imports.product, imports.tests) {
			isHertz := strings.HasPrefix(library, "github.com/cloudwego/hertz") || strings.HasPrefix(library, "github.com/cloudwego/netpoll")
			if isHertz && path != "server/edge" {
				t.Errorf("%s imports %s", path, library)
			}
		}
	}
}

func TestTheClusterAloneImportsTheClientOfTheBrokers(t *testing.T) {
	for path, imports := range packages(t) {
		for _, library := range imports.product {
			if strings.HasPrefix(library, "github.com/nats-io/nats.go") && path != "server/cluster" {
				t.Errorf("%s imports %s", path, library)
			}
			if strings.HasPrefix(library, "github.com/nats-io/nats-server") && path != "bench/cluster" && path != "server/cluster/clustertest" {
				t.Errorf("%s imports %s, which belongs in no program but the one for trying a cluster out, and in tests", path, library)
			}
		}
	}
}

// What records and reads memory names interfaces of its own, so that another engine can stand there.
func TestTheServerNamesNoStore(t *testing.T) {
	for _, name := range files(t, ".go") {
		if strings.HasPrefix(name, "server/") && !strings.HasSuffix(name, "_test.go") && strings.Contains(read(t, name), "*store.Store") {
			t.Errorf("%s names *store.Store", name)
		}
	}
}

// mostMethods is the largest number of exported methods that a type may have.
const mostMethods = 30

// A type with more is several things in one.
func TestNoTypeHasTooManyMethods(t *testing.T) {
	for _, name := range typesOf(t) {
		var all []string
		methods := types.NewMethodSet(name.Type())
		if !types.IsInterface(name.Type()) {
			methods = types.NewMethodSet(types.NewPointer(name.Type()))
		}
		for m := range methods.Methods() {
			if o := m.Obj(); o.Exported() && o.Pkg() != nil && isOurs(o.Pkg().Path()) { // not what time.Time brings
				all = append(all, o.Name())
			}
		}
		if len(all) > mostMethods {
			t.Errorf("%s.%s has %d exported methods: %s", within(name.Pkg().Path()), name.Name(), len(all), strings.Join(all, " "))
		}
	}
}

func isOurs(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// typesOf returns the exported types of all packages, as the compiler exports them.
func typesOf(t *testing.T) (all []*types.TypeName) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}};{{.Export}}", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), ";")
		exports[path] = file
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for path, file := range exports {
		if !isOurs(path) || file == "" {
			continue
		}
		p, err := compiled.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			if named, is := p.Scope().Lookup(name).(*types.TypeName); is && named.Exported() && !named.IsAlias() {
				all = append(all, named)
			}
		}
	}
	return all
}

// mostLines is the largest number of lines that a file of the product may have.
const mostLines = 700

// A longer one is several thoughts.
func TestNoFileIsTooLong(t *testing.T) {
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if lines := strings.Count(read(t, name), "\n"); lines > mostLines {
			t.Errorf("%s has %d lines, more than %d: what is in it that could stand alone?", name, lines, mostLines)
		}
	}
}
