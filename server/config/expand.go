package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces each ${NAME} with the variable's value, once: values are not expanded again and never read as YAML.
// "$${" stands for "${". Errors name the variable and never quote a value.
func expand(text string, env func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		if !found {
			out.WriteString(text)
			return out.String(), nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			out.WriteString(escaped)
			out.WriteString("${")
			text = after
			continue
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed || !variableName.MatchString(name) {
			return "", fmt.Errorf("a variable is written ${NAME}; write $${ where ${ itself is meant")
		}
		value, set := env(name)
		if !set {
			return "", fmt.Errorf("the variable %s is not set; set it before starting mneme, or write the value here", name)
		}
		out.WriteString(before)
		out.WriteString(value)
		text = rest
	}
}
