package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/mnemeproxy/mneme/bench/serving"
)

// mneme is a running server.
type mneme struct {
	*serving.Mneme

	key string // of the account in the pictures
}

func startMneme(ctx context.Context, program, dir, upstream string) (m *mneme, err error) {
	config := fmt.Sprintf("providers:\n  openai: {base_url: %[1]s/v1, api_key: none}\n  anthropic: {base_url: %[1]s, api_key: none}\n", upstream)
	m = &mneme{}
	if m.Mneme, err = serving.Start(ctx, program, dir, filepath.Join(dir, "data"), config); err != nil {
		return nil, err
	}
	for _, name := range []string{"ci", "laptop of alice"} {
		if m.key, err = m.Run(ctx, "key", "create", "--account", "default", "--name", name); err != nil {
			m.Stop()
			return nil, err
		}
	}
	return m, nil
}
