package main

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/bench/serving"
)

// mneme is the program, serving.
type mneme struct {
	*serving.Mneme

	key  string // of the account that is looked at
	link string // opens the page, once
}

func startMneme(ctx context.Context, program, dir, data, upstream string) (m *mneme, err error) {
	config := fmt.Sprintf("providers: {openai: {base_url: %s/v1, api_key: none}}\n", upstream)
	m = &mneme{}
	if m.Mneme, err = serving.Start(ctx, program, dir, data, config); err != nil {
		return nil, err
	}
	if m.key, err = m.Run(ctx, "key", "create", "--account", account); err == nil {
		m.link, err = m.Run(ctx, "ui", "--print")
	}
	if err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}
