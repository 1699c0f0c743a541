package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var walkStep = regexp.MustCompile("(?m)^\\| .* \\| `([a-z0-9_/]+\\.go):([A-Za-z]+)` \\|$")

// The walk is for newcomers, who lose the way at the first step that is not there or leads back.
func TestTheWalkThroughTheCodeIsTrue(t *testing.T) {
	_, walk, found := strings.Cut(read(t, "docs/architecture.md"), "## A walk through the code")
	if !found {
		t.Fatal("docs/architecture.md has no walk")
	}
	steps := 0
	for part := range strings.SplitSeq(walk, "\n### ") {
		var left []string // files, in order
		for _, step := range walkStep.FindAllStringSubmatch(part, -1) {
			file, name := step[1], step[2]
			declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `[\[(]`)
			if !slices.Contains(files(t, ".go"), file) || !declared.MatchString(read(t, file)) {
				t.Errorf("there is no function %s in %s", name, file)
			}
			if slices.Contains(left, file) && left[len(left)-1] != file {
				t.Errorf("the walk comes back to %s", file)
			}
			left = append(left, file)
			steps++
		}
	}
	if steps < 25 {
		t.Errorf("only %d steps found: is the search for them wrong?", steps)
	}
}
