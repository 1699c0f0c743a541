package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const rounds = 7

// measure prints all figures, in milliseconds of the page's own clock.
func (p *plan) measure(ctx context.Context, out io.Writer, m *mneme, b *browser, long string) error {
	if err := b.open(m.link); err != nil {
		return err
	}
	if err := b.wait(`document.querySelectorAll('.sessions .row').length > 0`); err != nil {
		return err
	}
	for _, cold := range []bool{true, false} {
		if err := b.firstPaint(out, m, cold); err != nil {
			return err
		}
	}
	for _, view := range []struct{ name, path, rows string }{
		{"list of sessions", "/ui/", ".sessions .row"},
		{"list of sessions by a filter that none fits", "/ui/?client=nobody", ".sessions .note"},
		{"list of exchanges", "/ui/live", ".live .row"},
		{"usage", "/ui/usage", ".usage tbody tr"},
	} {
		if err := b.opens(out, view.name, view.path, view.rows); err != nil {
			return err
		}
	}
	if err := p.scroll(out, m, b, long); err != nil {
		return err
	}
	return p.tail(ctx, out, m, b)
}

func (b *browser) firstPaint(out io.Writer, m *mneme, cold bool) error {
	if err := b.cold(cold); err != nil {
		return err
	}
	var paints, rows []float64
	for range rounds {
		if err := b.open(m.URL + "/ui/"); err != nil {
			return err
		}
		if err := b.wait(`document.querySelectorAll('.sessions .row').length > 0 && performance.getEntriesByName('first-contentful-paint').length > 0`); err != nil {
			return err
		}
		paint, err := evaluate[float64](b, `performance.getEntriesByName('first-contentful-paint')[0].startTime`)
		if err != nil {
			return err
		}
		list, err := evaluate[float64](b, `Math.max(...performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/memory/sessions')).slice(0, 1).map((e) => e.responseEnd))`)
		if err != nil {
			return err
		}
		paints, rows = append(paints, paint), append(rows, list)
	}
	fmt.Fprintf(out, "first paint, cache %s: median %.0f ms, worst %.0f; the list is there after %.0f\n", map[bool]string{true: "empty", false: "full"}[cold], median(paints), slices.Max(paints), median(rows))
	return b.cold(false)
}

// opens measures from a click to the frame that shows rows.
func (b *browser) opens(out io.Writer, name, path, rows string) error {
	var took []float64
	for range rounds {
		away := fmt.Sprintf(`(async () => {
			const go = (to) => (history.pushState(null, '', to), dispatchEvent(new PopStateEvent('popstate')));
			const frame = () => new Promise((r) => requestAnimationFrame(r));
			go('/ui/health');
			while (!document.querySelector('.health') || document.querySelector(%[2]q)) await frame();
			await new Promise((r) => setTimeout(r, 300));
			const began = performance.now();
			go(%[1]q);
			while (!document.querySelector(%[2]q)) await frame();
			return performance.now() - began;
		})()`, path, rows)
		ms, err := evaluate[float64](b, away)
		if err != nil {
			return err
		}
		took = append(took, ms)
	}
	fmt.Fprintf(out, "%s: open after a median of %.0f ms, worst %.0f\n", name, median(took), slices.Max(took))
	return nil
}

// frames are what scripts of this file measure: times between frames, and what the page's thread worked for each.
type frames struct{ Between, Work []float64 }

func (f *frames) String() string {
	late := 0
	for _, ms := range f.Between {
		if ms > 1.5*1000/60 {
			late++
		}
	}
	return fmt.Sprintf("%.0f frames/s (median), %d of %d late; work for a frame: median %.1f ms, p95 %.1f, worst %.1f",
		1000/median(f.Between), late, len(f.Between), median(f.Work), percentile(f.Work, 0.95), slices.Max(f.Work))
}

// watchFrames is the start of scripts that measure frames; step is done in each, for as long as more says.
const watchFrames = `const between = [], work = [];
	const watch = (step, more) => new Promise((done) => {
		let before = 0;
		const frame = (now) => {
			if (before) between.push(now - before);
			before = now;
			const began = performance.now();
			step();
			const after = new MessageChannel();
			after.port1.onmessage = () => (work.push(performance.now() - began), more() ? requestAnimationFrame(frame) : done(JSON.stringify({between, work})));
			after.port2.postMessage(0);
		};
		requestAnimationFrame(frame);
	});`

func (b *browser) frames(script string) (*frames, error) {
	text, err := evaluate[string](b, `(async () => {`+watchFrames+script+`})()`)
	if err != nil {
		return nil, err
	}
	f := new(frames)
	return f, json.Unmarshal([]byte(text), f)
}

func (p *plan) scroll(out io.Writer, m *mneme, b *browser, long string) error {
	began := time.Now()
	if err := b.open(m.URL + "/ui/sessions/" + long); err != nil {
		return err
	}
	seen := `(async () => { while (!document.querySelector('.turn')) await new Promise((r) => requestAnimationFrame(r)); return performance.now(); })()`
	first, err := evaluate[float64](b, seen)
	if err != nil {
		return err
	}
	if err := b.wait(`document.querySelector('.turns').innerText.length > 0 && !document.querySelector('.turns').innerText.includes('loading')`); err != nil {
		return err
	}
	fmt.Fprintf(out, "session of %d turns: the first turns are there after %.0f ms, all after %v\n", p.turns, first, time.Since(began).Round(time.Millisecond))
	for _, step := range []int{120, 3000} {
		f, err := b.frames(fmt.Sprintf(`let n = 0; scrollTo(0, 0); return watch(() => scrollBy({top: %d, behavior: 'instant'}), () => n++ < 600);`, step))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "scrolling %d pixels a frame: %s\n", step, f)
	}
	nodes, err := evaluate[int](b, `document.querySelectorAll('*').length`)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "elements in the page then: %d\n", nodes)
	return nil
}

// tail watches the page while exchanges pass.
func (p *plan) tail(ctx context.Context, out io.Writer, m *mneme, b *browser) error {
	if err := b.open(m.URL + "/ui/live"); err != nil {
		return err
	}
	if err := b.wait(`Boolean(document.querySelector('.state.live'))`); err != nil {
		return err
	}
	before := b.told.Load()
	began := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- p.send(ctx, m) }()
	f, err := b.frames(fmt.Sprintf(`const until = performance.now() + %d; return watch(() => {}, () => performance.now() < until);`, p.lasting.Milliseconds()))
	if err != nil {
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	spent := time.Since(began)
	last, err := ask(ctx, http.DefaultClient, m)
	if err != nil {
		return err
	}
	began = time.Now()
	if err := b.wait(fmt.Sprintf(`[...document.querySelectorAll('.live .row')].some((r) => r.href.includes(%q))`, last)); err != nil {
		return err
	}
	fmt.Fprintf(out, "tail: %.0f events/s came to the page; %s; the last one was shown within %v\n",
		float64(b.told.Load()-before)/spent.Seconds(), f, time.Since(began).Round(time.Millisecond))
	return nil
}

// send lets exchanges pass at the plan's rate.
func (p *plan) send(ctx context.Context, m *mneme) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	pace := time.NewTicker(time.Second / time.Duration(p.rate))
	defer pace.Stop()
	var sending sync.WaitGroup
	failed := make(chan error, 1)
	slots := make(chan struct{}, 64)
	for range int(p.lasting.Seconds() * float64(p.rate)) {
		<-pace.C
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			if _, err := ask(ctx, client, m); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	sending.Wait()
	close(failed)
	return <-failed
}

// ask lets one exchange pass, and gives its id.
func ask(ctx context.Context, client *http.Client, m *mneme) (id string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-5","messages":[{"role":"user","content":"Hello."}]}`))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+m.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("an exchange was answered with status %d", response.StatusCode)
	}
	return response.Header.Get("X-Service-Exchange-ID"), err
}

func median(of []float64) float64 { return percentile(of, 0.5) }

func percentile(of []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
