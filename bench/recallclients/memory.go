package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/bench/serving"
	"github.com/mnemeproxy/mneme/server/api"
)

// indexed is how long indexing may take.
const indexed = 2 * time.Minute

// remember fills the memory of a project with a session about each topic, and waits until searches find them.
func remember(ctx context.Context, s *serving.Mneme, key, project string) error {
	for n, topic := range topics {
		body := fmt.Sprintf(`{"model":"gpt-5-mini","messages":[{"role":"user","content":%q}]}`, question(topic.name)+" "+topic.known)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("X-Service-Project", project)
		r.Header.Set("X-Service-Session-Id", fmt.Sprint("earlier-", n))
		r.Header.Set("X-Service-Recall", "off")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d: %s", response.StatusCode, answer)
		}
	}
	return awaitIndexed(ctx, s, len(topics))
}

// awaitIndexed waits until searches find everything, which is at least so many turns.
func awaitIndexed(ctx context.Context, s *serving.Mneme, least int) error {
	ctx, cancel := context.WithTimeout(ctx, indexed)
	defer cancel()
	for {
		var stats []api.Stats
		if err := runJSON(ctx, s, &stats, "stats", "--json"); err != nil {
			return err
		}
		if i := stats[0].Index; i.Lag == 0 && i.Documents >= uint64(least) {
			return nil
		}
	}
}
