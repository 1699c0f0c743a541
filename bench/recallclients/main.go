// Command recallclients lets real clients ask questions over MCP in a memory of imported sessions, and fails if too few are answered, and
// measures what recall costs them in the provider's prompt cache. Claude Code and Codex
// run the same conversations without recall, with recall in their requests, and with recall by hooks, each with its own
// provider, server and home. It prints the share of prompt tokens that the provider read from its cache. It fails if
// that share is more than half a point from the share without recall, or if a question was not answered from memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// mostApart is by how many percentage points recall may change the share.
const mostApart = 0.5

func main() {
	program := flag.String("mneme", "bin/mneme", "the program")
	names := flag.String("clients", "claude,codex", "the clients, separated by commas; they have to be in PATH")
	asked := flag.Int("asked", 56, "how many questions each client asks over MCP in a memory of imported sessions; 0: none")
	caches := flag.Bool("caches", true, "measure the caches")
	flag.Parse()
	if err := run(os.Stdout, *program, strings.Split(*names, ","), *asked, *caches); err != nil {
		fmt.Fprintln(os.Stderr, "recallclients:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, program string, names []string, asked int, caches bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "recall-clients-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var failures []error
	for _, name := range names {
		c, known := clients[name]
		if !known {
			return fmt.Errorf("no client %q; there are claude and codex", name)
		}
		if asked > 0 {
			failures = append(failures, ask(ctx, out, program, filepath.Join(dir, name), c, asked))
		}
		if caches {
			failures = append(failures, compare(ctx, out, program, filepath.Join(dir, name), c))
		}
	}
	return errors.Join(failures...)
}

// compare compares the cached share of a client in all ways with that without recall.
func compare(ctx context.Context, out io.Writer, program, dir string, c client) error {
	var failures []error
	var without float64
	for n, w := range ways {
		m, err := measure(ctx, program, fmt.Sprint(dir, n), c, w)
		if err != nil {
			return fmt.Errorf("%s, recall %s: %w", c.name, w.name, err)
		}
		share := 100 * m.CacheShare
		fmt.Fprintf(out, "%s, recall %s: %.2f %% of %d tokens cached in %d requests, %d recollections of %d tokens", c.name, w.name,
			share, m.prompts(), m.Requests, m.recalled.Spoke, m.recalled.Tokens)
		if w.off() {
			without = share
			fmt.Fprintln(out)
			continue
		}
		fmt.Fprintf(out, ", %+.2f points\n", share-without)
		switch {
		case m.recalled.Spoke < int64(len(topics)):
			failures = append(failures, fmt.Errorf("%s, recall %s: only %d questions of %d were answered from memory", c.name, w.name, m.recalled.Spoke, len(topics)))
		case math.Abs(share-without) > mostApart:
			failures = append(failures, fmt.Errorf("%s, recall %s: the cached share is more than %.1f points away", c.name, w.name, mostApart))
		}
	}
	return errors.Join(failures...)
}
