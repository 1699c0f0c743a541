package bench

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// gateways returns the targets of --url, with the headers of --key and --header.
func (c *Run) gateways() (targets []*target, err error) {
	var header strings.Builder
	header.WriteString(bearer(cmp.Or(c.Key, serviceKey))) // the provider requires one, from any gateway
	for _, field := range c.Header {
		name, value, found := strings.Cut(field, ":")
		if !found || name == "" || strings.ContainsAny(field, "\r\n") {
			return nil, fmt.Errorf("--header %q: write it like 'Name: value'", field)
		}
		fmt.Fprintf(&header, "%s: %s\r\n", name, strings.TrimSpace(value))
	}
	for _, argument := range c.URL {
		t, err := parseURLTarget(argument)
		if err != nil {
			return nil, err
		}
		t.header = header.String()
		targets = append(targets, t)
	}
	return targets, nil
}

// parseURLTarget reads NAME=URL or NAME=URL,PID.
func parseURLTarget(argument string) (*target, error) {
	name, rest, _ := strings.Cut(argument, "=")
	address, pid, hasPID := strings.Cut(rest, ",")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.Path != "" {
		return nil, fmt.Errorf("--url %s: write it like name=http://127.0.0.1:8080,4711", argument)
	}
	t := &target{Name: name, address: u.Host}
	if hasPID {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return nil, fmt.Errorf("--url %s: %q is not a process id", argument, pid)
		}
		t.process = &process{pid: n}
	}
	return t, nil
}

// writeDirections prints how to point another gateway at the simulated provider.
func writeDirections(w io.Writer, address string) error {
	_, err := fmt.Fprintf(w, `simulated provider on http://%[1]s
Point other gateways at it, with any key:
  OpenAI                 http://%[1]s/v1      models %[2]s, %[3]s
  OpenAI, Chat only      http://%[1]s/v1      model %[4]s
  Anthropic              http://%[1]s         model %[5]s
  Gemini                 http://%[1]s/v1beta  model %[6]s
`, address, openAI, embedding, compatible, anthropic, gemini)
	return err
}
