package docs_test

import (
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

// What records and reads memory names interfaces of its own, so that another engine can stand there.
func TestTheServerNamesNoStore(t *testing.T) {
	for _, name := range files(t, ".go") {
		if strings.HasPrefix(name, "server/") && !strings.HasSuffix(name, "_test.go") && strings.Contains(read(t, name), "*store.Store") {
			t.Errorf("%s names *store.Store", name)
		}
	}
}
