package provider_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// A script in the prompt says what the simulated model answers.
func ExampleStart() {
	server, err := provider.Start(provider.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	resp, err := http.Post(server.URL()+"/v1/messages", "application/json", strings.NewReader(
		`{"model":"claude-opus-5","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"[[sim: text \"Hello.\" ; call read {\"path\":\"a.go\"} ]]"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			fmt.Println(name)
		}
	}
	// Output:
	// message_start
	// content_block_start
	// ping
	// content_block_delta
	// content_block_stop
	// content_block_start
	// content_block_delta
	// content_block_delta
	// content_block_delta
	// content_block_stop
	// message_delta
	// message_stop
}
