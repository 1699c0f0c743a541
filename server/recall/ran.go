package recall

import (
	"slices"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// longestCall bounds the arguments in which a command is looked for, in bytes.
const longestCall = 8 << 10

// command is what the steps of a round ran in a shell.
type command struct {
	exchange string
	id, text string // of the call
	failed   bool
	worth    float64
}

// ranIn adds the commands of a turn, and notes the results of earlier ones.
func ranIn(list []command, exchange string, turn *record.Turn) []command {
	for _, messages := range [][]record.Message{turn.Messages, turn.Answer} {
		for i := range messages {
			for j := range messages[i].Parts {
				switch p := &messages[i].Parts[j]; p.Kind {
				case "result":
					if at := slices.IndexFunc(list, func(c command) bool { return c.id != "" && c.id == p.CallID }); at >= 0 {
						code, _ := search.ExitCode(p.Text)
						list[at].failed = p.Failed || code != 0
					}
				case "call":
					if len(p.Arguments) > longestCall {
						continue
					}
					text := search.Command(p)
					if text != "" && !slices.ContainsFunc(list, func(c command) bool { return c.text == text }) {
						list = append(list, command{exchange: exchange, id: p.CallID, text: text})
					}
				}
			}
		}
	}
	return list
}
