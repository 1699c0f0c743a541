package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// working makes a session of an agent that plans, edits a file, fails, and answers; it returns the session's id.
func (h *harness) working() string {
	h.t.Helper()
	type call struct{ name, arguments, result string }
	calls := []call{
		{"Bash", `{"command":"go test ./lock"}`, "ok"},
		{"Edit", `{"file_path":"/src/lock.go","old_string":"a","new_string":"b"}`, "changed"},
		{"Bash", `{"command":"go vet"}`, "error: lock.go:7 is unused"},
		{"TodoWrite", `{"todos":[{"content":"Remove line 7","status":"pending"},{"content":"Find the lock","status":"completed"}]}`, "noted"},
	}
	script := "Mend the lock. [[sim: "
	for _, c := range calls {
		script += "call " + c.name + " " + c.arguments + " ; then ; "
	}
	said := []string{fmt.Sprintf(`{"role":"user","content":%s}`, quoted(script+`text "The lock is mended. It waits now."]]`))}
	session := ""
	for i := range len(calls) + 1 {
		a := h.post(messages.path, `{"model":"`+messages.model+`","max_tokens":99,"messages":[`+strings.Join(said, ",")+`]}`, "X-Service-Chat-Key", "working", "X-Service-Project", "/src")
		session = a.header.Get("X-Service-Session-ID")
		if i < len(calls) {
			c := calls[i]
			id := between(a.body, `"id":"toolu`, `"`)
			said = append(said,
				fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"toolu%s","name":%q,"input":%s}]}`, id, c.name, c.arguments),
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu%s","content":%s,"is_error":%v}]}`, id, quoted(c.result), strings.HasPrefix(c.result, "error")))
		}
	}
	h.turns(session)
	return session
}

// between returns the text between two others; "" without them.
func between(text, before, behind string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, behind)
	return text
}

func TestABrowserReadsTheStoryOfASession(t *testing.T) {
	b := startBrowser(t)
	b.story("its head says what happened, and its steps are folded", func(t *testing.T) {
		h := windowed(t)
		session := h.working()
		b.open(h, h.invite())
		b.shows("Mend the lock.")
		b.finds(`document.querySelector('.sessions .said').innerText === 'The lock is mended.'`, "the answer under the question")
		b.finds(`document.querySelector('.sessions .day').innerText.includes('Today')`, "the heading of the day")
		b.visit("/ui/sessions/" + session)
		b.finds(`document.querySelector('.story') && ['The lock is mended.', 'Remove line 7', 'lock.go', 'lock.go:7 is unused'].every((text) => document.querySelector('.story').innerText.includes(text))`, "what was done, is left, was edited, and failed")
		b.finds(`document.title.startsWith('Mend the lock.')`, "the question in the title of the tab")
		b.finds(`document.querySelectorAll('.turn').length === 2 && document.querySelector('.transcript .round-fold').innerText.includes('3 steps · 1 file · 1 failed')`, "a question, folded steps and an answer")
		b.fits("a folded session")
		b.finds(`(() => { document.querySelector('.transcript .round-fold').focus(); return document.activeElement.matches('.round-fold'); })()`, "the fold with the keyboard")
		b.press(evaluate[string](b, `document.querySelector('.transcript .round-fold').innerText.trim()`))
		b.finds(`document.querySelectorAll('.turn').length === 5`, "the steps")
		b.hides("no result")
	})
	b.story("a call leads to what its subagent did, and back", func(t *testing.T) {
		h := windowed(t)
		call := func(id, task string) string {
			return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"Task","input":{"description":"looks","prompt":%q}}`, id, task)
		}
		result := func(id, text string) string {
			return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%q}`, id, text)
		}
		ask := func(agent string, said ...string) *answer {
			headers := []string{"X-Claude-Code-Session-Id", "0b9d8f5e-2c4a-4b1e-9a6d-1f2e3d4c5b6a", "User-Agent", "claude-cli/2.1.7 (external, cli)"}
			if agent != "" {
				headers = append(headers, "X-Claude-Code-Agent-Id", agent)
			}
			return h.post(messages.path, `{"model":"`+messages.model+`","max_tokens":99,"messages":[`+strings.Join(said, ",")+`]}`, headers...)
		}
		user := func(content string) string { return `{"role":"user","content":` + content + `}` }
		question := user(quoted(`Find the lock. [[sim: call Task {"prompt":"Look for the lock."} ; call Task {"prompt":"Look for the key."} ; then ; text "Both are found."]]`))
		first := ask("", question)
		session := first.header.Get("X-Service-Session-ID")
		ids := regexp.MustCompile(`toolu\w+`).FindAllString(first.body, 2)
		for agent, task := range map[string]string{"a11": "Look for the lock.", "b22": "Look for the key."} {
			ask(agent, user(quoted(task+` [[sim: text "Found it."]]`)))
		}
		// One result names its subagent; the other is known by what was asked.
		ask("", question, `{"role":"assistant","content":[`+call(ids[0], "Look for the lock.")+`,`+call(ids[1], "Look for the key.")+`]}`, user(`[`+result(ids[0], "Found it.")+`,`+result(ids[1], "Found it. agentId: b22")+`]`))
		h.turns(session)
		b.open(h, h.invite())
		b.shows("Find the lock.")
		b.finds(`document.querySelector('.sessions .day').innerText.includes('1 session')`, "one session, with its subagents")
		b.visit("/ui/sessions/" + session)
		b.shows("2 subagents")
		b.finds(`document.querySelectorAll('.worked a').length === 2`, "a link at each call")
		b.hides("no result")
		b.fits("a session with subagents")
		b.finds(`!document.querySelector('.worked a').click()`, "the link of the first call")
		b.finds(`document.querySelector('.session-head h1').innerText.startsWith('Look for the lock.')`, "the first subagent")
		b.press("parent session")
		b.shows("2 subagents")
	})
	b.story("a day in one look says what is left, what failed, and who spent what", func(t *testing.T) {
		h := windowed(t)
		for range 2 { // keys of one label, such as those of a wrapped agent
			h.do(http.MethodPost, chat.path, chat.body(`text "hi"`, false), "X-Service-API-Key", h.createKey("acme", store.ScopeWrite))
		}
		h.working()
		b.open(h, h.invite())
		b.shows("Mend the lock.")
		b.visit("/ui/today")
		for _, text := range []string{"Left open", "Remove line 7", "Failed, and not seen to pass since", "lock.go:7 is unused", "The lock is mended.", "Who spent what", "src"} {
			b.shows(text)
		}
		b.finds(`[...document.querySelectorAll('.spent td:first-child')].filter((e) => e.innerText === 'test').length === 1`, "one line for the keys of a label")
		b.fits("/ui/today")
	})
	b.story("what broke the cache is named, with its price", func(t *testing.T) {
		h := windowed(t)
		ask := func(model, said, script string) *answer {
			return h.post(messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":99,"system":"Be brief.","messages":[%s{"role":"user","content":%s}]}`, model, said, quoted("Go on. [[sim: "+script+"]]")), "X-Service-Chat-Key", "cached")
		}
		ask("claude-opus-4-8", "", `text "One."; usage input=60000 cached=50000`)
		a := ask("claude-sonnet-4-6", `{"role":"user","content":"Go on."},{"role":"assistant","content":"One."},`, `text "Two."; usage input=60000 cached=0`)
		session := a.header.Get("X-Service-Session-ID")
		h.turns(session)
		b.open(h, h.invite())
		b.shows("Go on.")
		b.visit("/ui/sessions/" + session + "?tab=context")
		b.shows("the model changed from claude-opus-4-8 to claude-sonnet-4-6")
		b.shows("Broken prompt caches cost $")
		b.shows("Change models between sessions, not within one.")
		b.fits("a broken cache")
		b.visit("/ui/live")
		b.shows("cache lost ($")
		b.visit("/ui/usage")
		b.shows("What broken caches cost")
	})
	b.story("a session shows what its tokens were for, with prices", func(t *testing.T) {
		h := windowed(t)
		session := h.post(messages.path, with(messages.body(`text "One."; usage input=60000 cached=50000`, false), `"tools":[{"name":"mcp__wiki__read","description":"Reads a page.","input_schema":{"type":"object"}}]`), "X-Service-Chat-Key", "told").header.Get("X-Service-Session-ID")
		h.turns(session)
		b.open(h, h.invite())
		b.shows("Hello.")
		b.visit("/ui/sessions/" + session + "?tab=context")
		b.shows("What this request cost")
		b.shows("What the session cost")
		b.shows("are definitions of tools that were never called: mcp__wiki__read.")
		b.fits("costs by cause")
	})
	b.story("a session that was left says what going on costs", func(t *testing.T) {
		var ahead atomic.Int64
		h := windowed(t, func(p *plan) {
			p.server.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		a := h.post(messages.path, messages.body(`text "One."; usage input=200000 written=180000`, false), "X-Service-Chat-Key", "left")
		session := a.header.Get("X-Service-Session-ID")
		h.turns(session)
		b.open(h, h.invite())
		b.shows("Hello.")
		ahead.Store(int64(3 * time.Hour))
		b.visit("/ui/sessions/" + session)
		b.shows("If you go on: Idle 3 h, 200k tokens, cache gone: this turn costs about $")
		b.fits("a session that was left")
	})
	b.story("an imported turn shows nothing that was made up", func(t *testing.T) {
		h := usedBefore(t)
		b.open(h, h.invite())
		b.press("Import what agents have kept here")
		b.press("See what is there")
		b.shows("Import 3 exchanges")
		b.press("Import 3 exchanges")
		b.shows("Imported 3 exchanges")
		b.press("See them")
		b.finds(`document.querySelector('.sessions .tag').innerText === 'imported from Claude Code'`, "a tag in the list")
		b.finds(`(() => { const row = document.querySelector('.sessions .row'); if (row) row.click(); return Boolean(row); })()`, "a session")
		b.shows("imported from Claude Code")
		for _, tab := range []string{"Context", "Raw", "Translated", "Replay"} {
			b.press(tab)
			b.shows("Not recorded: imported")
		}
		b.fits("an imported turn")
	})
	b.story("the live page says what is asked, where, by which client and key, and filters by them on a telephone too", func(t *testing.T) {
		h := windowed(t)
		label := "laptop <b>of alice</b>"
		secret, _, err := h.store.Keys().Create("acme", store.ScopeWrite|store.ScopeRead, label)
		ok(t, err)
		h.key = secret
		h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Where is the lock?", "In lock.go.")), "X-Service-Project", "/src/shop", "User-Agent", "claude-cli/2.1 (external)")
		h.turns(h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Where is the key?", "In key.go.")), "X-Service-Project", "/src/infra", "User-Agent", "codex/1.0").header.Get("X-Service-Session-ID"))
		b.open(h, h.invite())
		b.shows("Where is the lock?")
		b.do(chromedp.EmulateViewport(390, 900))
		b.visit("/ui/live")
		b.finds(`[...document.querySelectorAll('.live .row')].some((row) => row.innerText.includes('Where is the lock?') && row.innerText.includes('shop · claude-cli · `+label+`'))`, "question, project, client and the key's label")
		b.fits("/ui/live")
		b.press("infra")
		b.hides("Where is the lock?")
		b.shows("Where is the key?")
		b.finds(`location.search.includes('project')`, "the filter in the address")
		b.press("infra")
		b.shows("Where is the lock?")
	})
	b.story("a key gets a bound on what is spent in a short time, and Live shows what comes close to it", func(t *testing.T) {
		h := windowed(t)
		id := h.limit(store.Limits{})
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.visit("/ui/keys")
		b.shows("limited")
		b.finds(fmt.Sprintf(`(() => {
			const row = [...document.querySelectorAll('tr')].find((r) => r.innerText.includes(%q));
			const one = row && [...row.querySelectorAll('button')].find((e) => e.innerText === 'limits');
			if (one) one.click();
			return Boolean(one);
		})()`, id), "the key's limits")
		b.write("stalled_tokens", "200000")
		b.write("budget_usd_burst", "0.05")
		b.write("burst_minutes", "60")
		b.fits("the limits of a key")
		b.press("Save")
		b.shows("0.05 USD/burst")
		b.shows("200,000 stalled tokens")
		b.visit("/ui/live")
		const cent = `text "hi"; usage input=1000 output=200`
		for range 5 {
			h.post(messages.path, messages.body(cent, false))
		}
		b.finds(`[...document.querySelectorAll('.live .row .warn')].some((e) => e.innerText === 'spent 0.04 of 0.05 USD in 60 minutes')`, "what is close to its bound")
		b.fits("/ui/live with a burst")
	})
	b.story("an operator sees who spends, what breaks and fails, and looks at another account", func(t *testing.T) {
		h := windowed(t)
		h.working()
		h.account("globex")
		_, err := h.store.Accounts().SetBudget(t.Context(), "globex", func(budget *store.Budget) { budget.Month = record.Dollar })
		ok(t, err)
		elsewhere := []string{"X-Service-API-Key", h.createKey("globex", store.ScopeWrite)}
		h.do(http.MethodPost, chat.path, chat.said(chat.model, "Be brief.", sim("Where do quokkas live?", "On Rottnest.")), elsewhere...)
		h.do(http.MethodPost, chat.path, chat.body(`status 400`, false), elsewhere...)
		code, err := h.proxy.Invite("acme", true)
		ok(t, err)
		b.open(h, "/ui/#code="+code)
		b.shows("Mend the lock.")
		b.press("Accounts")
		b.finds(`['globex', 'acme', 'of $1.00 a month', '1 of 2 failed'].every((text) => document.querySelector('.accounts').innerText.includes(text))`, "both accounts, a budget, and what fails")
		b.fits("/ui/accounts")
		b.press("globex")
		b.shows("Where do quokkas live?")
		b.hides("Mend the lock.")
		b.visit("/ui/keys")
		b.shows("Keys of globex")
		b.finds(`(() => {
			document.querySelector('.menu').open = true;
			const choice = document.querySelector('.menu select');
			if (!choice || choice.value !== 'globex') return false;
			choice.value = 'acme';
			return choice.dispatchEvent(new Event('change', {bubbles: true}));
		})()`, "the choice of accounts")
		b.shows("Mend the lock.")
	})
	b.story("the keyboard alone leads everywhere", func(t *testing.T) {
		h := windowed(t)
		h.working()
		b.do(chromedp.EmulateViewport(1024, 900))
		b.open(h, h.invite())
		b.shows("Mend the lock.")
		types := func(keys string) { b.do(chromedp.KeyEvent(keys)) }
		types("?")
		b.shows("raw, translated, context, attempts, replay")
		types("?")
		b.hides("raw, translated, context, attempts, replay")
		types("j")
		b.finds(`document.activeElement.matches('.sessions .row')`, "the first session, marked")
		types(kb.Enter)
		b.shows("Remove line 7")
		for key, tab := range map[string]string{"x": "Context", "r": "Raw", "t": "Translated", "a": "Attempts", "p": "Replay"} {
			types(key)
			b.finds(`document.querySelector('[role=tab][aria-selected=true]').innerText === '`+tab+`'`, tab)
		}
		types(kb.Escape)
		b.finds(`Boolean(document.querySelector('.transcript .round-fold'))`, "the conversation")
		for range 60 {
			types(kb.Tab)
			if evaluate[bool](b, `document.activeElement.matches('.transcript .round-fold')`) {
				break
			}
		}
		types(kb.Enter)
		b.finds(`document.querySelectorAll('.turn').length === 5`, "the steps of the fold that Tab leads to")
		types("/")
		b.finds(`document.activeElement.matches('.find input')`, "the field of the search")
		types("unused" + kb.Enter)
		b.shows("1 hit")
		b.finds(`(() => { document.activeElement.blur(); return document.activeElement === document.body; })()`, "no field")
		types(".")
		b.finds(`location.pathname === '/ui/live'`, "the live page")
	})
}
