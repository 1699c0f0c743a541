package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/roff"
)

// Completion is "mneme completion SHELL".
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"The shell: bash, zsh, fish or powershell."`
}

// completions are scripts that run "mneme complete" with the words before the one being typed, and filter its output by
// that word.
var completions = map[string]string{
	"bash": `_mneme() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(mneme complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _mneme mneme
# In ~/.bashrc: source <(mneme completion bash)
`,
	"zsh": `#compdef mneme
_mneme() {
  local -a found
  found=(${(f)"$(mneme complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)"})
  if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _mneme mneme
# In ~/.zshrc, after compinit: source <(mneme completion zsh)
`,
	"fish": `complete -c mneme -f -a '(mneme complete -- (commandline -opc)[2..-1] 2>/dev/null)'
complete -c mneme -n 'test (count (mneme complete -- (commandline -opc)[2..-1] 2>/dev/null)) -eq 0' -F
# Into ~/.config/fish/completions/mneme.fish: mneme completion fish
`,
	"powershell": `Register-ArgumentCompleter -Native -CommandName mneme -ScriptBlock {
  param($word, $ast, $position)
  $before = @($ast.CommandElements | Select-Object -Skip 1 | Where-Object { $_.Extent.EndOffset -lt $position } | ForEach-Object { $_.ToString() })
  mneme complete '--' @before 2>$null | Where-Object { $_ -like "$word*" } | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}
# In $PROFILE: mneme completion powershell | Out-String | Invoke-Expression
`,
}

// Run writes the script.
func (c *Completion) Run(s *Env) error {
	_, err := io.WriteString(s.Out, completions[c.Shell])
	return err
}

// Complete is "mneme complete -- WORD…", which the scripts run.
type Complete struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words before the one being typed."`
}

// Run lists what may come next: commands, values, and flags.
func (c *Complete) Run(s *Env) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range candidates(s.grammar.Model.Node, words) {
		fmt.Fprintln(s.Out, candidate)
	}
	return nil
}

func candidates(node *kong.Node, words []string) (found []string) {
	given := 0             // arguments so far
	var waiting *kong.Flag // waits for its value
	for _, word := range words {
		switch {
		case waiting != nil:
			waiting = nil
		case word == "--":
			return nil // the words of another program
		case strings.HasPrefix(word, "-"):
			name, _, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if f := flagOf(node, name); f != nil && !valued && !f.IsBool() {
				waiting = f
			}
		default:
			if i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
				node = node.Children[i]
				given = 0
			} else {
				given++
			}
		}
	}
	if waiting != nil {
		return waiting.EnumSlice()
	}
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, child.Name)
		}
	}
	if given < len(node.Positional) {
		found = append(found, node.Positional[given].EnumSlice()...)
	}
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			found = append(found, "--"+f.Name)
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool { return s == "" })
	slices.Sort(found)
	return slices.Compact(found)
}

func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if f.Name == name || len(name) == 1 && f.Short == rune(name[0]) {
				return f
			}
		}
	}
	return nil
}

// Man is "mneme man".
type Man struct{}

// Run writes the manual page of all commands, for: mneme man | man -l -
func (*Man) Run(s *Env) error {
	_, err := io.WriteString(s.Out, mangokong.NewManPage(1, s.grammar.Model).Build(roff.NewDocument()))
	return err
}
