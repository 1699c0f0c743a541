// Command searchspeed measures search latency in a large account under load, with the real program: it fills a store,
// lets mneme build its index and vectors, and searches while exchanges are captured.
//
//	make search-speed [ARGS="-documents 10000"]
//	make recall-speed [ARGS="-documents 10000"]
//
// With -recall it measures recall decisions instead, in one project with all exchanges, without vectors. The vectors
// come from the simulated provider over HTTP; only their number and size matter here, not their meaning.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// plan is what is measured.
type plan struct {
	program    string
	dir        string
	documents  int
	bytes      int
	dimensions int
	rate       int
	queries    int
	recall     bool
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == asProvider {
		if err := serveProvider(); err != nil {
			fmt.Fprintln(os.Stderr, "provider:", err)
			os.Exit(1)
		}
		return
	}
	var p plan
	flag.StringVar(&p.program, "mneme", "bin/mneme", "the program")
	flag.StringVar(&p.dir, "dir", "", "where to work; \"\": a temporary directory, which is removed")
	flag.IntVar(&p.documents, "documents", 100_000, "exchanges in the account")
	flag.IntVar(&p.bytes, "bytes", 4<<10, "of text in each")
	flag.IntVar(&p.dimensions, "dimensions", 768, "of the vectors")
	flag.IntVar(&p.rate, "rate", 200, "exchanges a second that are captured meanwhile")
	flag.IntVar(&p.queries, "queries", 1000, "of each kind")
	flag.BoolVar(&p.recall, "recall", false, "measure the decisions of recall instead of searches")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := p.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "searchspeed:", err)
		os.Exit(1)
	}
}

func (p *plan) run(ctx context.Context, out io.Writer) (err error) {
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "mneme-search-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	}
	data := filepath.Join(p.dir, "data")
	began := time.Now()
	said, err := fill(ctx, data, p.documents, p.bytes)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d exchanges of %d bytes of text, in %v\n", p.documents, p.bytes, time.Since(began).Round(time.Second))

	up, err := startProvider(ctx)
	if err != nil {
		return err
	}
	defer up.stop()
	if p.recall {
		return p.measureRecall(ctx, out, up, data, said)
	}
	if err := p.index(ctx, out, up, data); err != nil {
		return err
	}
	return p.measure(ctx, out, up, data, said)
}

// index lets the program build the index of words, and then the vectors, with nothing else to do.
func (p *plan) index(ctx context.Context, out io.Writer, up *process, data string) error {
	for _, embedder := range []string{"model: none", p.embedder()} {
		began := time.Now()
		m, err := startMneme(ctx, p.program, p.dir, data, up.address, embedder)
		if err != nil {
			return err
		}
		status, err := m.caughtUp(ctx)
		took, worked := time.Since(began), m.cpu()
		m.stop()
		if err != nil {
			return err
		}
		what, size, documents := "index of words", status.Bytes, status.Documents
		if v := status.Vectors; v != nil {
			what, size, documents = fmt.Sprintf("vectors of %d dimensions", p.dimensions), v.Bytes, v.Documents
		}
		fmt.Fprintf(out, "%s: %.0f documents/s, %.2f ms of processor time each in mneme, %.0f bytes each on disk\n",
			what, float64(p.documents)/took.Seconds(), ms(worked)/float64(p.documents), float64(size)/float64(max(documents, 1)))
	}
	return nil
}

func (p *plan) embedder() string {
	return fmt.Sprintf("model: text-embedding-3-small, dimensions: %d, batch_texts: 64, calls: 2", p.dimensions)
}

// measure asks while exchanges pass.
func (p *plan) measure(ctx context.Context, out io.Writer, up *process, data string, said *generator) error {
	m, err := startMneme(ctx, p.program, p.dir, data, up.address, p.embedder())
	if err != nil {
		return err
	}
	defer m.stop()
	if _, err := m.caughtUp(ctx); err != nil {
		return err
	}
	for _, rate := range []int{0, p.rate} {
		l := startLoad(ctx, m, rate, p.bytes)
		for _, mode := range []string{"lexical", "hybrid"} {
			for _, words := range []int{1, 3} {
				before := m.cpu()
				took, err := m.ask(ctx, p.queries, mode, func() string { return said.query(words) })
				if err != nil {
					return err
				}
				worked := ""
				if rate == 0 {
					worked = fmt.Sprintf(", %.1f ms of processor time", ms(m.cpu()-before)/float64(p.queries+warmUp))
				}
				fmt.Fprintf(out, "%d exchanges/s, %s, %d words: p50 %.1f ms, p99 %.1f ms%s\n",
					rate, mode, words, ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), worked)
			}
		}
		passed, late, err := l.stop()
		if err != nil {
			return err
		}
		if rate > 0 {
			fmt.Fprintf(out, "%.0f exchanges/s passed meanwhile; found after their answer: p50 %.0f ms, p99 %.0f ms (%d looked for)\n",
				passed, ms(quantile(late, 0.5)), ms(quantile(late, 0.99)), len(late))
		}
	}
	return nil
}

// quantile sorts.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// asProvider makes this program the provider, in a process of its own.
const asProvider = "provider"

// serveProvider serves until standard input ends.
func serveProvider() error {
	up, err := provider.Start(provider.Options{Keep: -1, FreshIDs: true})
	if err != nil {
		return err
	}
	fmt.Println("listening on", up.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return up.Close()
}
