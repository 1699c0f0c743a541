// Package docs_test checks what the pages say against the tree: links and references resolve, and what they name exists.
package docs_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/responses"
)

const root = ".."

// files are the paths below the root whose name ends so, with slashes, without what is built or hidden.
func files(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root {
			base := entry.Name()
			if strings.HasPrefix(base, ".") || base == "bin" || base == "data" || base == "testdata" || base == "bench-report" {
				return fs.SkipDir
			}
			return nil
		}
		for _, suffix := range suffixes {
			if strings.HasSuffix(name, suffix) {
				relative, err := filepath.Rel(root, name)
				found = append(found, filepath.ToSlash(relative))
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no file ends in %v", suffixes)
	}
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// prose returns the comments and string literals of a Go file.
func prose(text string) []string {
	var (
		s     scanner.Scanner
		found []string
	)
	set := token.NewFileSet()
	s.Init(set.AddFile("", -1, len(text)), []byte(text), nil, scanner.ScanComments)
	for {
		switch _, kind, literal := s.Scan(); kind {
		case token.EOF:
			return found
		case token.COMMENT, token.STRING:
			found = append(found, literal)
		}
	}
}

var (
	explicitAnchor = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	heading        = regexp.MustCompile(`^#{1,6} (.+)$`)
	fence          = regexp.MustCompile("^\\s*```")
)

// anchors are the places of a page that a link may name: those with an id, and the headings in GitHub's spelling.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	inCode := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if fence.MatchString(line) {
			inCode = !inCode
		}
		if inCode {
			continue
		}
		for _, match := range explicitAnchor.FindAllStringSubmatch(line, -1) {
			found[match[1]] = true
		}
		if match := heading.FindStringSubmatch(line); match != nil {
			found[slug(match[1])] = true
		}
	}
	return found
}

func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// A reference is docs/wire/PAGE.md with any number of anchors: "docs/wire/messages.md", "docs/wire/messages.md#5",
// "docs/wire/messages.md#5 and #6".
var (
	wireReference = regexp.MustCompile(`docs/wire/([a-z0-9-]+\.md)((?:(?:,? (?:and )?)?#[a-z0-9.]*[a-z0-9])*)`)
	wireAnchor    = regexp.MustCompile(`#([a-z0-9.]*[a-z0-9])`)
	lineBreak     = regexp.MustCompile(`\n\t*// ?`)
)

func TestReferencesToTheWirePagesResolve(t *testing.T) {
	pages := make(map[string]map[string]bool)
	references := 0
	for _, name := range files(t, ".go", ".md", ".yaml") {
		text := lineBreak.ReplaceAllString(read(t, name), " ")
		for _, match := range wireReference.FindAllStringSubmatch(text, -1) {
			page, known := pages[match[1]]
			if !known {
				if _, err := os.Stat(filepath.Join("wire", match[1])); err != nil {
					t.Errorf("%s refers to docs/wire/%s, which does not exist", name, match[1])
					continue
				}
				page = anchors(read(t, "docs/wire/"+match[1]))
				pages[match[1]] = page
			}
			references++
			for _, anchor := range wireAnchor.FindAllStringSubmatch(match[2], -1) {
				if !page[anchor[1]] {
					t.Errorf("%s refers to docs/wire/%s#%s, which the page does not have", name, match[1], anchor[1])
				}
			}
		}
	}
	if references < 70 {
		t.Errorf("only %d references found: is the search for them wrong?", references)
	}
}

// The one spelling of a reference is a path, which the test above resolves.
func TestNoWirePageIsCitedInWords(t *testing.T) {
	for _, name := range files(t, ".go") {
		if strings.HasPrefix(name, "docs/") {
			continue
		}
		if strings.Contains(lineBreak.ReplaceAllString(read(t, name), " "), "wire sheet") {
			t.Errorf("%s cites a wire sheet in words; write docs/wire/PAGE.md#SECTION", name)
		}
	}
}

var pitfall = regexp.MustCompile(`\bP([1-9][0-9]{0,2})\b`)

func TestPitfallsThatTheCodeNamesAreListed(t *testing.T) {
	listed := anchors(read(t, "docs/wire/translation.md"))
	named := 0
	for _, name := range files(t, ".go") {
		for _, text := range prose(read(t, name)) {
			for _, match := range pitfall.FindAllStringSubmatch(text, -1) {
				named++
				if !listed["p"+match[1]] {
					t.Errorf("%s names P%s, which docs/wire/translation.md#6 does not list", name, match[1])
				}
			}
		}
	}
	if named < 150 {
		t.Errorf("only %d pitfalls found in the code: is the search for them wrong?", named)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksBetweenPagesResolve(t *testing.T) {
	for _, name := range files(t, ".md") {
		inCode := false
		for line := range strings.Lines(read(t, name)) {
			if fence.MatchString(line) {
				inCode = !inCode
			}
			if inCode || strings.HasPrefix(line, "    ") {
				continue
			}
			for _, match := range link.FindAllStringSubmatch(withoutCode(line), -1) {
				target, anchor, _ := strings.Cut(match[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				page := name
				if target != "" {
					page = path.Join(path.Dir(name), target)
				}
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(page))); err != nil {
					t.Errorf("%s links to %s, which does not exist", name, page)
					continue
				}
				if anchor != "" && !anchors(read(t, page))[anchor] {
					t.Errorf("%s links to %s#%s, which the page does not have", name, page, anchor)
				}
			}
		}
	}
}

var inlineCode = regexp.MustCompile("`[^`]*`")

func withoutCode(line string) string { return inlineCode.ReplaceAllString(line, "``") }

// Headings with the same text have no stable link on a page, and sections that code cites must not move.
func TestAnchorsOfAWirePageAreUnique(t *testing.T) {
	for _, name := range files(t, ".md") {
		if !strings.HasPrefix(name, "docs/wire/") {
			continue
		}
		var ids []string
		for _, match := range explicitAnchor.FindAllStringSubmatch(read(t, name), -1) {
			if slices.Contains(ids, match[1]) {
				t.Errorf("%s has the anchor %s twice", name, match[1])
			}
			ids = append(ids, match[1])
		}
	}
}

// pages are what people read, without the wire pages, which speak about other people's files and fields, and the
// changelog, which names what is gone.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(files(t, ".md"), func(name string) bool {
		return strings.HasPrefix(name, "docs/wire/") || name == "CHANGELOG.md"
	})
}

// mostWords keeps the README something that is read.
const mostWords = 900

func TestTheReadmeIsShort(t *testing.T) {
	if words := len(strings.Fields(read(t, "README.md"))); words > mostWords {
		t.Errorf("the README has %d words, at most %d: move something to docs/", words, mostWords)
	}
}

var (
	testName     = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+`)
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
)

func TestTestsThatThePagesNameExist(t *testing.T) {
	tests := make(map[string]bool)
	for _, name := range files(t, "_test.go") {
		for _, match := range testFunction.FindAllStringSubmatch(read(t, name), -1) {
			tests[match[1]] = true
		}
	}
	for _, name := range pages(t) {
		for _, test := range testName.FindAllString(read(t, name), -1) {
			if !tests[test] {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	}
}

// A path of ours in code, perhaps with a function of the file: `server/pump.go:run`.
var pathInCode = regexp.MustCompile("`((?:bench|codec|deploy|docs|fuzz|router|server|store)/[A-Za-z0-9_./-]*)(?::([A-Za-z]+))?`")

func TestPathsThatThePagesNameExist(t *testing.T) {
	for _, name := range pages(t) {
		for _, match := range pathInCode.FindAllStringSubmatch(read(t, name), -1) {
			file, function := match[1], match[2]
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s names %s, which does not exist", name, file)
				continue
			}
			if function != "" && !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+function+`[(\[]`).MatchString(read(t, file)) {
				t.Errorf("%s names %s in %s, which the file does not have", name, function, file)
			}
		}
	}
}

var (
	makeInCode = regexp.MustCompile("(?m)(?:`|^    (?:\\$ )?|^\\$ )make ([a-z0-9-]+)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

func TestMakeTargetsThatThePagesNameExist(t *testing.T) {
	targets := make(map[string]bool)
	for _, match := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[match[1]] = true
	}
	for _, name := range pages(t) {
		for _, match := range makeInCode.FindAllStringSubmatch(read(t, name), -1) {
			if !targets[match[1]] {
				t.Errorf("%s names make %s, which the Makefile does not have", name, match[1])
			}
		}
	}
}

var (
	pattern   = regexp.MustCompile(`^"(GET|HEAD|POST|PUT|PATCH|DELETE) (/[^"]*)"$`)
	handled   = regexp.MustCompile(`(?:edge\.Handle(?:Probe)?\(|\{)http\.Method(Get|Post|Delete), "([^"]+)"`)
	surface   = regexp.MustCompile(`"(/v1/[a-z/_]+)": +codec\.`)
	colonName = regexp.MustCompile(`[:*]([a-z]+)`)
	routeTold = regexp.MustCompile("`(GET|HEAD|POST|PUT|PATCH|DELETE) (/[^`?]*)")
)

// Both ways: what is served stands on the page, and what stands on the page is served.
func TestThePageOfTheAPIHasEveryRoute(t *testing.T) {
	served := make(map[string]bool)
	for _, name := range files(t, ".go") {
		if !strings.HasPrefix(name, "server/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := read(t, name)
		if slices.ContainsFunc([]string{"server/memory/", "server/admin/", "server/ui/"}, func(folder string) bool { return strings.HasPrefix(name, folder) }) {
			for _, literal := range prose(text) {
				if match := pattern.FindStringSubmatch(literal); len(match) == 3 && !strings.HasPrefix(match[2], "/debug/pprof/") {
					served[match[1]+" "+match[2]] = true
				}
			}
			continue
		}
		for _, match := range handled.FindAllStringSubmatch(text, -1) {
			served[strings.ToUpper(match[1])+" "+colonName.ReplaceAllString(match[2], "{$1}")] = true
		}
		for _, match := range surface.FindAllStringSubmatch(text, -1) {
			served["POST "+match[1]] = true
		}
	}
	if len(served) < 40 {
		t.Fatalf("only %d routes found: is the search for them wrong?", len(served))
	}
	told := make(map[string]bool)
	for _, match := range routeTold.FindAllStringSubmatch(read(t, "docs/api.md"), -1) {
		if strings.HasPrefix(match[2], "/debug/pprof/") {
			continue
		}
		route := match[1] + " " + match[2]
		told[route] = true
		if !served[route] {
			t.Errorf("docs/api.md has %s, which is not served", route)
		}
	}
	for route := range served {
		if !told[route] {
			t.Errorf("docs/api.md does not have %s", route)
		}
	}
}

func TestThePageOfTheAPIHasTheStatusesOfEveryKindOfError(t *testing.T) {
	page := read(t, "docs/api.md")
	for kind := range codec.KindUnsupported + 1 {
		e := &codec.Error{Kind: kind}
		row := fmt.Sprintf(" | %d | %d |\n", chat.Client().Status(e), messages.Client().Status(e))
		if other := responses.Client().Status(e); other != chat.Client().Status(e) {
			t.Errorf("%s has status %d on responses, and the page has one column for both", kind, other)
		}
		if !strings.Contains(page, row) {
			t.Errorf("docs/api.md has no row for %s:%s", kind, row)
		}
	}
}

var ourHeader = regexp.MustCompile(`(?i)x-service-[a-z-]*[a-z]`)

func TestThePageOfTheAPIHasEveryHeader(t *testing.T) {
	known := make(map[string]bool)
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(name, "server/") {
			continue
		}
		for _, literal := range prose(read(t, name)) {
			if strings.HasPrefix(literal, `"`) {
				if header := strings.Trim(literal, `"`); header != "" && ourHeader.FindString(header) == header {
					known[strings.ToLower(header)] = true
				}
			}
		}
	}
	if len(known) < 10 {
		t.Fatalf("only %d headers found: is the search for them wrong?", len(known))
	}
	told := make(map[string]bool)
	for _, name := range append(files(t, ".md"), "mneme.example.yaml") {
		for _, header := range ourHeader.FindAllString(read(t, name), -1) {
			if !known[strings.ToLower(header)] {
				t.Errorf("%s names the header %s, which the server does not know", name, header)
			}
			if name == "docs/api.md" {
				told[strings.ToLower(header)] = true
			}
		}
	}
	for header := range known {
		if !told[header] {
			t.Errorf("docs/api.md does not have the header %s", header)
		}
	}
}

var figure = regexp.MustCompile(`[0-9][0-9,]*(?:\.[0-9]+)?`)

// The README repeats a few figures of the page that says how they were made.
func TestTheFiguresOfTheReadmeAreThoseOfTheBenchmarks(t *testing.T) {
	measured := make(map[string]bool)
	for _, number := range figure.FindAllString(read(t, "docs/benchmarks.md"), -1) {
		measured[strings.ReplaceAll(number, ",", "")] = true
	}
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## How fast\n")
	section, _, _ = strings.Cut(section, "\n## ")
	figures := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		for i, cell := range cells {
			number := strings.ReplaceAll(strings.TrimSpace(cell), ",", "")
			if i < 2 || figure.FindString(number) != number || number == "" {
				continue
			}
			figures++
			if !measured[number] {
				t.Errorf("the README says %s, which docs/benchmarks.md does not", number)
			}
		}
	}
	if figures < 8 {
		t.Errorf("only %d figures found: is the search for them wrong?", figures)
	}
}
