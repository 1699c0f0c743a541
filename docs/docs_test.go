// Package docs_test checks what the pages say against the tree: links and references resolve, and what they name exists.
package docs_test

import (
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

// prose gives the comments and string literals of a Go file.
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
	wireReference = regexp.MustCompile(`docs/wire/([a-z-]+\.md)((?:(?:,? (?:and )?)?#[a-z0-9.]*[a-z0-9])*)`)
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
