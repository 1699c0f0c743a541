package provider

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// directives maps each name to its syntax and its effect. The package comment explains them.
var directives = map[string]struct {
	usage string
	apply func(*step, *arguments)
}{
	"text":             {`text "…" [size=N]`, applyText},
	"events":           {`events N`, applyEvents},
	"size":             {`size N`, func(s *step, a *arguments) { s.delivery.size = a.number(1, 16<<20) }},
	"empty":            {`empty`, func(s *step, _ *arguments) { s.scripted = true }},
	"reasoning":        {`reasoning "…"`, func(s *step, a *arguments) { s.add(part{kind: partReasoning, text: a.text()}) }},
	"redacted":         {`redacted`, func(s *step, _ *arguments) { s.add(part{kind: partRedacted}) }},
	"call":             {`call NAME [{…}|"…"] [namespace=…]`, applyCall},
	"custom":           {`custom NAME "…" [namespace=…]`, applyCustom},
	"interleave":       {`interleave`, func(s *step, _ *arguments) { s.interleave = true }},
	"refuse":           {`refuse ["…"]`, applyRefuse},
	"block":            {`block`, func(s *step, _ *arguments) { s.blocked, s.scripted = true, true }},
	"search":           {`search "…" [url=…] [title=…]`, applySearch},
	"cite":             {`cite URL ["title"]`, applyCite},
	"stop":             {`stop length|call|context|filter|pause|malformed|sequence "…"`, applyStop},
	"stop-at":          {`stop-at length|call|context|filter|pause|malformed|sequence "…"`, applyStop},
	"usage":            {`usage [input=N] [cached=N] [written=N] [output=N] [reasoning=N]`, applyUsage},
	"delay":            {`delay [DURATION] [header=DURATION] [first=DURATION]`, applyDelay},
	"queue":            {`queue N [DURATION]`, applyQueue},
	"stamped":          {`stamped`, func(s *step, _ *arguments) { s.delivery.stamped = true }},
	"burst":            {`burst N`, func(s *step, a *arguments) { s.delivery.burst = a.number(1, 1<<20) }},
	"ping":             {`ping [every=N]`, func(s *step, a *arguments) { s.delivery.pingEvery = a.keyNumber("every", 1) }},
	"error":            {`error STATUS|CLASS [code=…] [message=…] [retry-after=…] [times=N]`, applyError},
	"error-inside":     {`error-inside [CLASS] [after=N] [form=event] [code=…] [message=…]`, applyErrorInside},
	"cut":              {`cut [after=N] [how=abort|clean|mid|reset]`, applyCut},
	"reset":            {`reset`, func(s *step, _ *arguments) { s.delivery.instead = insteadReset }},
	"garbage":          {`garbage`, func(s *step, _ *arguments) { s.delivery.instead = insteadGarbage }},
	"html":             {`html [STATUS]`, applyHTML},
	"body":             {`body STATUS "…"`, applyBody},
	"redirect":         {`redirect [STATUS] [LOCATION]`, applyRedirect},
	"early-hints":      {`early-hints`, func(s *step, _ *arguments) { s.delivery.earlyHints = true }},
	"content-type":     {`content-type "…"`, func(s *step, a *arguments) { s.delivery.contentType = a.text() }},
	"header":           {`header NAME "…"`, applyHeader},
	"crlf":             {`crlf`, func(s *step, _ *arguments) { s.delivery.crlf = true }},
	"one-byte":         {`one-byte`, func(s *step, _ *arguments) { s.delivery.oneByte = true }},
	"gzip":             {`gzip`, func(s *step, _ *arguments) { s.delivery.gzip = true }},
	"unknown":          {`unknown`, func(s *step, _ *arguments) { s.unknown = true }},
	"split-surrogates": {`split-surrogates`, func(s *step, _ *arguments) { s.splitPairs = true }},
	"omit":             {`omit usage|done|finish|ids|signature|event-lines`, applyOmit},
	"quirk":            {`quirk ` + strings.Join(sortedNames(quirks), "|"), applyQuirk},
}

func (d directive) apply(s *step) error {
	entry, known := directives[d.name]
	if !known {
		return fmt.Errorf("unknown directive %.40q", d.name)
	}
	a := &arguments{list: d.args}
	entry.apply(s, a)
	if a.problem == "" && len(a.list) > 0 {
		a.problem = fmt.Sprintf("unexpected %.40q", a.list[0].value)
	}
	if a.problem != "" {
		return fmt.Errorf("%s: %s; usage: %s", d.name, a.problem, entry.usage)
	}
	return nil
}

// arguments are taken one by one; what is left over at the end is an error.
type arguments struct {
	list    []argument
	problem string
}

func (a *arguments) fail(format string, args ...any) {
	if a.problem == "" {
		a.problem = fmt.Sprintf(format, args...)
	}
}

// next takes the next argument without a key.
func (a *arguments) next() (argument, bool) {
	for i, arg := range a.list {
		if arg.key == "" {
			a.list = append(a.list[:i:i], a.list[i+1:]...)
			return arg, true
		}
	}
	return argument{}, false
}

// key takes the argument key=value.
func (a *arguments) key(name string) (string, bool) {
	for i, arg := range a.list {
		if arg.key == name {
			a.list = append(a.list[:i:i], a.list[i+1:]...)
			return arg.value, true
		}
	}
	return "", false
}

func (a *arguments) text() string {
	arg, ok := a.next()
	if !ok {
		a.fail("something is missing")
	}
	return arg.value
}

func (a *arguments) number(low, high int) int {
	word := a.text()
	if a.problem != "" {
		return low
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < low || n > high {
		a.fail("%.40q is not a number from %d to %d", word, low, high)
		return low
	}
	return n
}

// keyNumber takes key=N with N >= 0, or gives the default.
func (a *arguments) keyNumber(name string, byDefault int) int {
	word, ok := a.key(name)
	if !ok {
		return byDefault
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		a.fail("%s=%.40s is not a number", name, word)
		return byDefault
	}
	return n
}

func (a *arguments) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 || d > time.Hour {
		a.fail("%.40q is not a duration up to 1h, such as 10ms", word)
	}
	return d
}

func (s *step) add(p part) {
	p.size = s.delivery.size
	s.parts = append(s.parts, p)
	s.scripted = true
}

func applyText(s *step, a *arguments) {
	size := a.keyNumber("size", 0)
	s.add(part{kind: partText, text: a.text()})
	if size > 0 {
		s.parts[len(s.parts)-1].size = size
	}
}

// applyEvents only counts; the text is made when the step is over, because a later directive may set the size.
func applyEvents(s *step, a *arguments) {
	s.add(part{kind: partText, events: a.number(1, 1_000_000)})
}

func applyCall(s *step, a *arguments) {
	namespace, _ := a.key("namespace")
	name := a.text()
	p := part{kind: partCall, name: name, namespace: namespace}
	if arg, ok := a.next(); ok {
		p.text = arg.value
		p.malformed = arg.form != formObject
		if strings.HasPrefix(p.text, "[") {
			p.malformed = true
		}
	}
	s.add(p)
}

func applyCustom(s *step, a *arguments) {
	namespace, _ := a.key("namespace")
	name := a.text()
	s.add(part{kind: partCustom, name: name, namespace: namespace, text: a.text()})
}

func applyRefuse(s *step, a *arguments) {
	p := part{kind: partRefusal, text: "The simulated provider refuses, because the script says so."}
	if arg, ok := a.next(); ok {
		p.text = arg.value
	}
	s.add(p)
	s.stop = stopRefusal
}

func applySearch(s *step, a *arguments) {
	p := part{kind: partSearch, text: a.text(), url: "https://example.com/", title: "Example"}
	if url, ok := a.key("url"); ok {
		p.url = url
	}
	if title, ok := a.key("title"); ok {
		p.title = title
	}
	s.add(p)
}

func applyCite(s *step, a *arguments) {
	if len(s.parts) == 0 || s.parts[len(s.parts)-1].kind != partText {
		a.fail("it stands behind the text that it belongs to")
		return
	}
	c := citation{url: a.text(), title: "Example"}
	if arg, ok := a.next(); ok {
		c.title = arg.value
	}
	last := &s.parts[len(s.parts)-1]
	last.citations = append(last.citations, c)
}

func applyStop(s *step, a *arguments) {
	switch word := a.text(); word {
	case "length":
		s.stop = stopLength
	case "call":
		s.stop, s.openCall = stopLength, true
	case "context":
		s.stop = stopContext
	case "filter":
		s.stop = stopFilter
	case "pause":
		s.stop = stopPause
	case "malformed":
		s.stop = stopMalformed
	case "sequence":
		s.stop, s.stopText = stopSequence, a.text()
	default:
		a.fail("unknown reason %.40q", word)
	}
}

func applyUsage(s *step, a *arguments) {
	s.usage.input = a.keyNumber("input", s.usage.input)
	s.usage.cached = a.keyNumber("cached", s.usage.cached)
	s.usage.written = a.keyNumber("written", s.usage.written)
	s.usage.output = a.keyNumber("output", s.usage.output)
	s.usage.reasoning = a.keyNumber("reasoning", s.usage.reasoning)
}

func applyDelay(s *step, a *arguments) {
	if word, ok := a.key("header"); ok {
		s.delivery.beforeHeader = a.duration(word)
	}
	if word, ok := a.key("first"); ok {
		s.delivery.beforeFirst = a.duration(word)
	}
	if arg, ok := a.next(); ok {
		s.delivery.between = a.duration(arg.value)
	}
}

func applyQueue(s *step, a *arguments) {
	s.delivery.queued, s.delivery.queuedFor = a.number(1, 1<<30), 0
	if arg, ok := a.next(); ok {
		s.delivery.queuedFor = a.duration(arg.value)
	}
}

// faultOptions reads the options that both error directives share.
func faultOptions(f *fault, a *arguments) {
	if code, ok := a.key("code"); ok {
		f.code = code
	}
	if message, ok := a.key("message"); ok {
		f.message = message
	}
	if seconds, ok := a.key("retry-after"); ok {
		f.retryAfter = seconds
	}
}

func applyError(s *step, a *arguments) {
	f := &fault{}
	word := a.text()
	if status, err := strconv.Atoi(word); err == nil {
		if status < 200 || status > 599 {
			a.fail("%d is not a status from 200 to 599", status)
		}
		f.status, f.class = status, classOfStatus(status)
	} else if class, ok := classNames[word]; ok {
		f.class = class
	} else if a.problem == "" {
		a.fail("unknown class %.40q", word)
	}
	faultOptions(f, a)
	s.faultTimes = a.keyNumber("times", 0)
	s.fault = f
}

func applyErrorInside(s *step, a *arguments) {
	f := &fault{class: classServer}
	if arg, ok := a.next(); ok {
		class, known := classNames[arg.value]
		if !known {
			a.fail("unknown class %.40q", arg.value)
		}
		f.class = class
	}
	if form, ok := a.key("form"); ok {
		if form != "event" {
			a.fail("unknown form %.40q", form)
		}
		f.event = true
	}
	faultOptions(f, a)
	s.insideAfter = a.keyNumber("after", beforeTerminal)
	s.insideFault = f
}

func applyCut(s *step, a *arguments) {
	s.delivery.cut = cutAbort
	if how, ok := a.key("how"); ok {
		switch how {
		case "abort":
		case "clean":
			s.delivery.cut = cutClean
		case "mid":
			s.delivery.cut = cutMid
		case "reset":
			s.delivery.cut = cutReset
		default:
			a.fail("unknown way %.40q", how)
		}
	}
	s.delivery.cutAfter = a.keyNumber("after", 0)
}

func applyHTML(s *step, a *arguments) {
	s.delivery.instead, s.delivery.status = insteadHTML, 502
	if len(a.list) > 0 {
		s.delivery.status = a.number(200, 599)
	}
}

func applyBody(s *step, a *arguments) {
	s.delivery.instead, s.delivery.status = insteadBody, a.number(200, 599)
	s.delivery.body = a.text()
}

func applyRedirect(s *step, a *arguments) {
	s.delivery.instead, s.delivery.status, s.delivery.location = insteadRedirect, 307, "https://example.com/"
	if len(a.list) > 0 {
		s.delivery.status = a.number(300, 399)
	}
	if arg, ok := a.next(); ok {
		s.delivery.location = arg.value
	}
}

func applyHeader(s *step, a *arguments) {
	name := a.text()
	s.delivery.headers = append(s.delivery.headers, [2]string{name, a.text()})
}

// quirks are what OpenAI-compatible hosts do otherwise (docs/wire/fourth-provider.md#1.1, docs/wire/translation.md#6).
var quirks = words(`whole-calls same-index repeated-names late-names finish-stop finish-with-text usage-everywhere usage-with-finish
	empty-deltas reasoning-member thinking-parts no-deltas`)

func applyQuirk(s *step, a *arguments) {
	word := a.text()
	if !quirks[word] {
		a.fail("unknown quirk %.40q", word)
	}
	if s.quirk == nil {
		s.quirk = make(map[string]bool)
	}
	s.quirk[word] = true
}

func applyOmit(s *step, a *arguments) {
	switch word := a.text(); word {
	case "usage", "done", "finish", "ids", "signature", "event-lines":
		if s.omit == nil {
			s.omit = make(map[string]bool)
		}
		s.omit[word] = true
	default:
		a.fail("unknown thing %.40q", word)
	}
}
