package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// windowed is a harness whose page has all that the program's has: a memory that can be searched, and the management.
func windowed(t *testing.T, changes ...func(*plan)) *harness {
	t.Helper()
	return build(t, append(changes, func(p *plan) {
		p.store.Digest = digest.Exchange
		p.server.Examine = func() []ui.Finding {
			return []ui.Finding{{Check: "disk", State: "warning", Found: "2 GiB free", Fix: "Make room"}}
		}
		p.index = &search.Options{Dir: filepath.Join(p.store.Dir, "index")}
		p.engine = func(e *server.Engine) {
			p.server.Management = admin.AccountHandler(admin.Over(e.Recorder.(*engine.Engine)), slog.New(slog.DiscardHandler), 1<<20)
		}
	})...)
}

// invite returns the address that mneme ui opens.
func (h *harness) invite() string {
	h.t.Helper()
	code, err := h.proxy.Invite("acme", false)
	ok(h.t, err)
	return "/ui/#code=" + code
}

// widths are those of telephones, tablets, a laptop and a large screen.
var widths = []int64{320, 390, 768, 1024, 1440, 2560}

// fits holds a view to every screen, light and dark, and to what axe-core asks for.
func (b *browser) fits(view string) {
	b.t.Helper()
	for _, width := range widths {
		b.do(chromedp.EmulateViewport(width, 900))
		if wide := evaluate[int64](b, `document.documentElement.scrollWidth`); wide > width {
			widest := evaluate[string](b, `[...document.querySelectorAll('main *, header *')].filter((e) => !e.closest('.scroll, pre') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120)).join('\n')`)
			b.t.Errorf("%s is %d wide on a screen of %d:\n%s", view, wide, width, widest)
		}
		if cut := evaluate[string](b, `[...document.querySelectorAll('.top nav a, section.live .model')].filter((e) => e.getBoundingClientRect().right > innerWidth || e.getClientRects().length > 2).map((e) => e.innerText).join()`); cut != "" {
			b.t.Errorf("on a screen of %d, %s cuts off or breaks up %s", width, view, cut)
		}
	}
	for _, screen := range []struct { // schemes change colors, widths what is shown
		width int64
		dark  bool
	}{{390, false}, {1440, false}, {1024, true}} {
		b.do(chromedp.EmulateViewport(screen.width, 900))
		b.dark(screen.dark)
		for _, barrier := range b.barriers() {
			b.t.Errorf("%s, %d wide, dark %t: %s", view, screen.width, screen.dark, barrier)
		}
	}
	if background := evaluate[string](b, `getComputedStyle(document.body).backgroundColor`); background == "rgb(255, 255, 255)" {
		b.t.Errorf("%s is white in the dark", view)
	}
	b.dark(false)
}

func TestABrowserAtTheWindow(t *testing.T) {
	b := startBrowser(t)
	b.story("first start shows lines to paste, with a key behind a button", func(t *testing.T) {
		h := windowed(t)
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.shows("OPENAI_BASE_URL=" + h.url)
		if strings.Contains(evaluate[string](b, `document.body.innerText`), "mnm_") {
			t.Error("a key is shown before anybody asked for it")
		}
		b.press("Make a key for these lines")
		b.shows("export MNEME_KEY=mnm_")
		key := evaluate[string](b, `document.querySelector('.secret').innerText.split('=')[1]`)
		if a := h.post(chat.path, chat.body(`text "hi"`, false), "Authorization", "Bearer "+key); a.status != http.StatusOK {
			t.Errorf("with that key: %d %s", a.status, a.body)
		}
		b.open(h, "/ui/") // the code is used up, and the cookie is there
		b.shows("Hello.")
	})
	b.story("every view fits its screen and keeps nobody out, light and dark", func(t *testing.T) {
		h := windowed(t)
		said := h.post(messages.path, with(messages.said(responses.model, "Be brief.", sim("Why does the retry fail?", "It holds the **lock**. <script>window.broken=1</script> ![x](http://198.51.100.1/x.png)\\n\\n```go\\nreturn \\\"<b>\\\" // soon\\n```\\n")), `"top_k":40`), "X-Service-Chat-Key", "k")
		session := said.header.Get("X-Service-Session-ID")
		h.turns(session)
		h.limit(store.Limits{Budget: store.Budget{Day: record.Dollar}})
		b.open(h, h.invite())
		b.shows("Why does the retry fail?")
		for _, view := range []struct{ path, text string }{
			{"/ui/", "Why does the retry fail?"},
			{"/ui/sessions/" + session, "It holds the lock"},
			{"/ui/sessions/" + session + "?tab=context", "What fills this request"},
			{"/ui/sessions/" + session + "?tab=raw", "characters"},
			{"/ui/sessions/" + session + "?tab=translated", "provider got"},
			{"/ui/sessions/" + session + "?tab=attempts", "tokens a second"},
			{"/ui/sessions/" + session + "?tab=replay", "Nothing sent yet"},
			{"/ui/sessions/sess_00000000000000000000000000", "Not found"},
			{"/ui/usage", "caches saved"},
			{"/ui/live", "Live"},
			{"/ui/search?q=retry", "hit"},
			{"/ui/keys", "Keys of acme"},
			{"/ui/health", "Make room"},
			{"/ui/nowhere", "Not found"},
		} {
			b.visit(view.path)
			b.shows(view.text)
			b.finds(`!document.querySelector('[aria-busy=true]')`, "all of it")
			b.fits(view.path)
		}
		b.visit("/ui/sessions/" + session)
		b.finds(`['kw return', 'str "<b>"', 'com // soon'].every((part) => [...document.querySelectorAll('.markdown pre span')].some((e) => e.className + ' ' + e.innerText === part))`, "code in colors")
		if evaluate[bool](b, `window.broken === 1`) {
			t.Error("a script in a model's answer was run")
		}
	})
	b.story("a turn shows before its end", func(t *testing.T) {
		h := windowed(t)
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.visit("/ui/live")
		b.shows("No exchanges yet")
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r := h.request(ctx, http.MethodPost, messages.path, messages.body(`events 1000; delay 1h first=1ms`, true), "Authorization", "Bearer "+h.key)
		response, err := h.client.Do(r)
		ok(t, err)
		defer response.Body.Close()
		b.finds(`Boolean(document.querySelector('.live .outcome.live'))`, "an open exchange")
		b.finds(`document.querySelector('.live .row .name').innerText.includes('Hello.')`, "what is asked") // before it ends
		b.press("Pause")
		b.shows("paused")
		b.visit("/ui/sessions/" + response.Header.Get("X-Service-Session-ID"))
		b.shows("answering…")
		leave()
		_, _ = io.Copy(io.Discard, response.Body)
		b.hides("answering…")
		b.shows("client closed")
	})
	b.story("a turn that ended while the page could not ask shows so when it can again", func(t *testing.T) {
		h := windowed(t)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r := h.request(ctx, http.MethodPost, messages.path, messages.body(`events 1000; delay 1h first=1ms`, true), "Authorization", "Bearer "+h.key)
		response, err := h.client.Do(r)
		ok(t, err)
		defer response.Body.Close()
		b.open(h, h.invite())
		b.shows("Sessions")
		b.visit("/ui/live")
		b.finds(`Boolean(document.querySelector('.state.live'))`, "a live tail") // it hears of the end
		b.visit("/ui/sessions/" + response.Header.Get("X-Service-Session-ID"))
		b.shows("answering…")
		evaluate[bool](b, `window.unanswered = 0, window.ask = fetch, window.fetch = () => (unanswered++, Promise.reject(new TypeError('away'))), true`)
		leave()
		_, _ = io.Copy(io.Discard, response.Body)
		b.finds(`unanswered >= 2`, "that it ended, and was digested")
		b.shows("answering…")
		evaluate[bool](b, `window.fetch = ask, new BroadcastChannel('mneme-tail').postMessage({kind: 'missed', event: {}}), true`)
		b.hides("answering…")
	})
	b.story("a call that the client sends back in other words stands once, with its result", func(t *testing.T) {
		h := windowed(t)
		ask := fmt.Sprintf(`{"role":"user","content":%s}`, quoted(`Mend it. [[sim: call edit {"path":"a.go"} ; then ; text "Mended."]]`))
		body := `{"model":"` + chat.model + `","messages":[` + ask
		a := h.post(chat.path, body+"]}", "X-Service-Chat-Key", "k")
		id := regexp.MustCompile(`"id":"(call[^"]+)"`).FindStringSubmatch(a.body)
		if id == nil {
			t.Fatalf("no call: %s", a.body)
		}
		h.post(chat.path, fmt.Sprintf(`%s,{"role":"assistant","tool_calls":[{"id":%[2]q,"type":"function","function":{"name":"edit","arguments":"{\"path\":\"a.go\",\"all\":false}"}}]},{"role":"tool","tool_call_id":%[2]q,"content":"It is changed."}]}`, body, id[1]), "X-Service-Chat-Key", "k")
		b.open(h, h.invite())
		b.shows("Mend it.")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID"))
		b.shows("Mended.")
		b.finds(`document.querySelectorAll('details.tool').length === 1`, "one call")
		b.hides("no result")
	})
	b.story("a change of model that rewrites the client's notes makes no branch, and calls of a request have their results", func(t *testing.T) {
		h := windowed(t)
		said := `{"role":"user","content":[{"type":"text","text":"Where do quokkas live?"}]},%s
			{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"look"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a map"}]}`
		ask := func(note, more string) *answer {
			return h.post(messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":99,"messages":[`+said+`%s]}`, messages.model, note, more), "X-Service-Chat-Key", "k")
		}
		where, when := sim("Where is that?", "On Rottnest."), sim("And wombats?", "In Tasmania.")
		ask(`{"role":"system","content":"# Environment\nYou are powered by a model."},`, fmt.Sprintf(`,{"role":"assistant","content":"A map."},{"role":"user","content":%s}`, quoted(where)))
		a := ask("", fmt.Sprintf(`,{"role":"assistant","content":"A map."},{"role":"user","content":%s},{"role":"assistant","content":"On Rottnest."},{"role":"user","content":%s}`, quoted(where), quoted(when)))
		b.open(h, h.invite())
		b.shows("Where do quokkas live?")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID"))
		b.shows("In Tasmania.")
		b.finds(`document.querySelectorAll('.turn').length === 2 && !document.querySelector('.fork')`, "two turns and no branch")
		b.finds(`document.querySelectorAll('details.tool').length === 1 && document.querySelector('details.tool .result').textContent.includes('a map')`, "the call with its result")
		b.hides("no result")
	})
	b.story("a conversation forks where the client went back, and each branch can be read", func(t *testing.T) {
		h := windowed(t)
		say := func(words ...string) *answer {
			return h.post(chat.path, chat.said(chat.model, "Be brief.", words...), "X-Service-Chat-Key", "k")
		}
		where, wombats := sim("Where do quokkas live?", "On Rottnest."), sim("And what about wombats?", "In Tasmania.")
		session := say(where).header.Get("X-Service-Session-ID")
		old := say(where, "On Rottnest.", wombats)
		say(where, "On Rottnest.", wombats, "In Tasmania.", sim("What do they eat?", "Grass."))
		say(where, "On Rottnest.", sim("And what about numbats?", "In the west."))
		newest := say(where, "On Rottnest.", sim("And what about numbats?", "In the west."))
		h.turns(session)
		b.open(h, h.invite())
		b.shows("Where do quokkas live?")
		b.visit("/ui/sessions/" + session)
		b.shows("3 branches from here")
		b.shows("branch 3 of 3")
		reads := func(want string) {
			t.Helper()
			b.finds(fmt.Sprintf(`[...document.querySelectorAll('.turn .said')].map((e) => e.innerText.replace(/ ?\[\[.*/, '').trim()).join(' | ') === %q`, want), want)
		}
		wombatsRead := "Where do quokkas live? | On Rottnest. | And what about wombats? | In Tasmania. | What do they eat? | Grass."
		numbatsRead := "Where do quokkas live? | On Rottnest. | And what about numbats? | In the west."
		reads(numbatsRead)
		b.finds(`(() => {
			const one = [...document.querySelectorAll('.fork button')].find((e) => e.innerText.includes('wombats'));
			if (one) one.click();
			return Boolean(one);
		})()`, "the branch about wombats")
		reads(wombatsRead)
		b.finds(`location.search.includes('branch=')`, "the branch in the address")
		b.visit("/ui/sessions/" + session + "?turn=" + newest.exchange())
		reads(numbatsRead)
		b.visit("/ui/sessions/" + session + "?turn=" + old.exchange())
		reads(wombatsRead)
		for _, barrier := range b.barriers() {
			t.Error(barrier)
		}
	})
	b.story("a conversation forks where two requests name the same answer to go on from, and one whose request failed does not", func(t *testing.T) {
		h := windowed(t)
		say := func(model, previous, text string) (id, session string) {
			t.Helper()
			a := h.post(responses.path, fmt.Sprintf(`{"model":%q,"previous_response_id":%s,"input":%s}`, model, previous, quoted(text)))
			var answer struct{ ID string }
			_ = json.Unmarshal([]byte(a.body), &answer)
			return quoted(answer.ID), a.header.Get("X-Service-Session-ID")
		}
		for _, model := range []string{responses.model, messages.model} { // whose answers have their provider's ids, and ours
			first, session := say(model, "null", sim("Where do quokkas live?", "On Rottnest."))
			wombats, _ := say(model, first, sim("And what about wombats?", "In Tasmania."))
			say(model, wombats, sim("What do they eat?", "Grass."))
			say(model, first, "And numbats? [[sim: error overloaded]]")
			say(model, first, "And numbats? [[sim: error overloaded]]")
			h.turns(session)
			b.open(h, h.invite())
			b.shows("Where do quokkas live?")
			b.visit("/ui/sessions/" + session)
			b.shows("2 branches from here")
			b.finds(`[...document.querySelectorAll('.turn > header .n')].map((e) => e.innerText).join() === '1,4,5'`, "the branch whose request failed, and the same again")
			b.finds(`[...document.querySelectorAll('.fork button')].map((e) => /(\d) turns/.exec(e.innerText)[1]).join() === '2,2'`, "two branches of two turns")
		}
	})
	b.story("a conversation that goes back into its first request forks, and one whose request failed does not", func(t *testing.T) {
		h := windowed(t)
		say := func(words ...string) *answer {
			return h.post(chat.path, chat.said(chat.model, "Be brief.", words...), "X-Service-Chat-Key", "k")
		}
		session := say("Where do quokkas live?", "On Rottnest.", sim("And wombats?", "In Tasmania.")).header.Get("X-Service-Session-ID")
		failed := "And numbats? [[sim: error overloaded]]"
		say("Where do quokkas live?", "On Rottnest.", failed)
		say("Where do quokkas live?", "On Rottnest.", failed)
		h.turns(session)
		b.open(h, h.invite())
		b.shows("Where do quokkas live?")
		b.visit("/ui/sessions/" + session)
		b.shows("2 branches from here")
		b.finds(`[...document.querySelectorAll('.turn > header .n')].map((e) => e.innerText).join() === '2,3'`, "the failed request and the same again")
		b.finds(`document.querySelector('.turn').innerText.includes('On Rottnest.')`, "the words that both branches have")
		b.finds(`document.querySelectorAll('.fork').length === 1`, "one fork")
	})
	b.story("pictures that were sent are shown from the record, and nothing else is loaded", func(t *testing.T) {
		h := windowed(t)
		drawn := base64.StdEncoding.EncodeToString(picture(t, 40, 30))
		photo := func(data string) string {
			return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
		}
		page := base64.StdEncoding.EncodeToString([]byte("<html><script>window.broken=1</script>"))
		for _, asked := range []struct {
			surface surface
			item    string
		}{
			{chat, `{"role":"user","content":[{"type":"text","text":"What is this? [[sim: text \"A square.\"]]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + drawn + `"}},{"type":"image_url","image_url":{"url":"https://198.51.100.1/secret.png"}}]}`},
			{responses, `{"role":"user","content":[{"type":"input_text","text":"What is this? [[sim: text \"A square.\"]]"},{"type":"input_image","image_url":"data:image/png;base64,` + drawn + `"}]}`},
			{messages, `{"role":"user","content":[` + photo(drawn) + `,` + photo(page) + `,{"type":"text","text":"What is this? [[sim: text \"A square.\"]]"}]},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a.png"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[` + photo(drawn) + `]}]}`},
		} {
			list := "messages"
			if asked.surface.name == "responses" {
				list = "input"
			}
			a := h.post(asked.surface.path, `{"model":"`+asked.surface.model+`","`+list+`":[`+asked.item+`]}`, "anthropic-version", "2023-06-01")
			b.open(h, h.invite())
			b.shows("What is this?")
			b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID"))
			b.shows("A square.")
			want := map[string]int{"chat": 1, "responses": 1, "messages": 2}[asked.surface.name]
			b.finds(fmt.Sprintf(`[...document.querySelectorAll('.picture img')].filter((e) => e.naturalWidth === 40).length === %d && document.querySelectorAll('img').length === %[1]d`, want), asked.surface.name+"'s pictures")
			if asked.surface.name == "chat" {
				b.shows("https://198.51.100.1/secret.png")
			}
			for _, barrier := range b.barriers() {
				t.Error(barrier)
			}
		}
	})
	b.story("a replay that ends when the page is another one leaves its address alone", func(t *testing.T) {
		h := windowed(t)
		a := h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Why?", "So.")))
		b.open(h, h.invite())
		b.shows("Why?")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID") + "?tab=replay")
		b.shows("Nothing sent yet")
		evaluate[bool](b, `(() => {
			const ask = fetch;
			window.fetch = async (path, o) => {
				if (path.startsWith('/v1/')) await new Promise((sent) => (window.answer = sent));
				const response = await ask(path, o);
				if (o.method === 'DELETE') setTimeout(() => (window.ended = true));
				return response;
			};
			document.querySelector('.replay input').value = 'gpt-4.1';
			return true;
		})()`)
		b.press("Send it again")
		b.finds(`Boolean(window.answer)`, "a request that waits")
		b.press("Usage")
		b.shows("caches saved")
		evaluate[bool](b, `(answer(), true)`)
		b.finds(`window.ended`, "the end of the replay")
		if search := evaluate[string](b, `location.search`); strings.Contains(search, "with=") {
			t.Errorf("the page of usage has the address %s", search)
		}
	})
	b.story("a picture of an answer is shown", func(t *testing.T) {
		h := windowed(t, drawsWith(t, picture(t, 40, 30)))
		a := h.post(responses.path, `{"model":"gemini-3.8-flash","input":"Draw it."}`)
		b.open(h, h.invite())
		b.shows("Draw it.")
		for _, tab := range []string{"", "?tab=replay"} {
			b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID") + tab)
			b.shows("Here.")
			b.finds(`[...document.querySelectorAll('.picture img')].map((e) => e.naturalWidth).join() === '40'`, "the picture")
		}
	})
	b.story("filters are asked of the whole list, not of what is loaded", func(t *testing.T) {
		h := windowed(t, func(p *plan) { p.router.Aliases = []router.Alias{{Model: "The-Large-One", To: messages.model}} })
		h.post(messages.path, messages.said("The-Large-One", "Be brief.", sim("Where is the wombat?", "Below.")), "User-Agent", "claude-cli/2.1", "X-Service-Project", "/home/dev/burrow", "X-Service-Chat-Key", "w")
		h.post(messages.path, messages.said(messages.model, "Be brief.", "Which one failed? [[sim: error overloaded]]"), "User-Agent", "claude-cli/2.1", "X-Service-Project", "/home/dev/burrow", "X-Service-Chat-Key", "f")
		for i := range 60 { // more than a page of them came later
			h.post(chat.path, chat.said(chat.model, "Be brief.", sim("And what else?", "This.")), "User-Agent", "curl/8", "X-Service-Project", "/home/dev/reef", "X-Service-Chat-Key", fmt.Sprint("k", i))
		}
		h.find(h.createKey("acme", store.ScopeRead), `{"query":"wombat"}`) // once it is indexed
		b.open(h, h.invite())
		b.shows("Show more")
		b.hides("Where is the wombat?")
		rows := func(filter string, want ...string) {
			t.Helper()
			b.visit("/ui/?" + filter)
			b.finds(fmt.Sprintf(`[...document.querySelectorAll('.sessions .row b')].map((e) => e.innerText.replace(/ \[\[.*/, '')).join() === %q`, strings.Join(want, ",")), filter)
		}
		b.finds(`[...document.querySelectorAll('option')].some((e) => e.value === '/home/dev/burrow')`, "a project of which no row is loaded, to choose")
		b.finds(`[...document.querySelectorAll('option')].some((e) => e.value === 'the-large-one')`, "a model as it was asked for, to choose")
		rows("project=/home/dev/burrow", "Which one failed?", "Where is the wombat?")
		rows("client=claude-code&outcome=complete", "Where is the wombat?")
		rows("client=claude-code&outcome=incomplete&when=1d", "Which one failed?")
		rows("model="+messages.model, "Which one failed?")
		rows("model=the-large-one", "Where is the wombat?")
		b.visit("/ui/?client=nobody")
		b.shows("No session fits these filters.")
	})
	b.story("what a client weaves into a question is counted by kind", func(t *testing.T) {
		h := windowed(t)
		a := h.post(messages.path, messages.said(messages.model, "Be brief.", "<system-reminder>The list is empty.</system-reminder>\n"+sim("Why?", "So.")))
		b.open(h, h.invite())
		b.shows("Why?")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID") + "?tab=context")
		b.shows("Put in by the client")
		b.finds(`[...document.querySelectorAll('.parts tr')].some((e) => /^system-reminder\s+53 B/.test(e.innerText))`, "its bytes")
	})
	b.story("a long conversation is drawn where one reads, and not where one flies by", func(t *testing.T) {
		h := windowed(t)
		const turns = 450
		session := ""
		for i := range turns {
			session = h.session(chat.path, chat.said(chat.model, "Be brief.", sim(fmt.Sprintf("Question %d?", i+1), "So.")), "X-Service-Chat-Key", "k")
		}
		b.open(h, h.invite())
		b.shows("Question 1?")
		b.visit("/ui/sessions/" + session)
		b.finds(fmt.Sprintf(`document.querySelector('.turns') && !document.querySelector('.turns').innerText.includes('loading') && document.querySelector('.sums').innerText.includes('%d')`, turns), "all of them")
		b.do(chromedp.EmulateViewport(1440, 900))
		drawn := evaluate[int](b, `(async () => {
			let drawn = 0;
			const frame = () => new Promise((r) => requestAnimationFrame(r));
			const watch = new MutationObserver((all) => all.forEach((m) => m.addedNodes.forEach((n) => (drawn += n.querySelectorAll ? n.querySelectorAll('.turn').length : 0))));
			watch.observe(document.querySelector('.transcript'), {childList: true, subtree: true});
			for (let rest = 0, before = -1; rest < 20; rest = drawn === before ? rest + 1 : 0, before = drawn) await frame();
			drawn = 0;
			for (let i = 0; i < 15; i++) {
				scrollBy({top: 2000, behavior: 'instant'});
				await frame();
			}
			watch.disconnect();
			return drawn;
		})()`)
		if drawn > 20 { // of some 190 that were passed
			t.Errorf("%d turns were drawn on the way", drawn)
		}
		b.finds(`Boolean(document.elementFromPoint(720, 450).closest('.turn'))`, "a turn in the middle of the screen")
		b.finds(fmt.Sprintf(`scrollTo({top: document.body.scrollHeight, behavior: 'instant'}), [...document.querySelectorAll('.turn')].some((e) => e.innerText.includes('Question %d?') && e.getBoundingClientRect().top < innerHeight)`, turns), "the last turn at the end")
		if there := evaluate[int](b, `document.querySelectorAll('.turn').length`); there > turns/2 {
			t.Errorf("%d turns are there at once", there)
		}
	})
	b.story("a hit opens at its turn", func(t *testing.T) {
		h := windowed(t)
		reader := h.createKey("acme", store.ScopeRead)
		h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Where do quokkas live?", "On Rottnest.")), "X-Service-Chat-Key", "k")
		second := h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Where do quokkas live?", "On Rottnest."), "On Rottnest.", sim("And what about wombats?", "In Tasmania.")), "X-Service-Chat-Key", "k")
		h.find(reader, `{"query":"wombats"}`) // once it is indexed
		b.open(h, "/ui/")
		b.signIn(reader)
		b.visit("/ui/search?q=wombats")
		b.shows("1 hit in one session")
		b.finds(`document.querySelector('.hits .name b').innerText !== 'Untitled'`, "a question as the name of the hit's session")
		evaluate[bool](b, `(document.querySelector('.hits .row').click(), true)`)
		b.finds(fmt.Sprintf(`location.search.includes(%[1]q) && document.querySelector('.turn.marked').id === 'turn-' + %[1]q`, second.exchange()), "the turn of the hit")
		b.visit("/ui/search?q=wombats&explain=1")
		b.shows("BM25")
	})
	b.story("a translation shows what was dropped at its place", func(t *testing.T) {
		h := windowed(t)
		a := h.post(messages.path, with(messages.said(responses.model, "Be brief.", sim("Why?", "So.")), `"top_k":40`))
		b.open(h, h.invite())
		b.shows("Why?")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID") + "?tab=translated")
		b.shows("client asked (messages)")
		b.shows("provider got (responses)")
		b.finds(`[...document.querySelectorAll('.marked-dropped summary')].some((e) => e.innerText.includes('top_k'))`, "top_k marked as dropped")
	})
	b.story("a link into another account leads nowhere", func(t *testing.T) {
		h := windowed(t)
		h.account("globex")
		a := h.post(chat.path, chat.said(chat.model, "Be brief.", sim("Whose secret?", "Theirs.")), "Authorization", "Bearer "+h.createKey("globex", store.AllScopes))
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID"))
		b.shows("Not found")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID") + "?tab=raw&turn=" + a.exchange())
		b.shows("Not found")
	})
	b.story("a key that may not read gets a sentence", func(t *testing.T) {
		h := windowed(t)
		b.open(h, "/ui/")
		b.signIn("mnm_wrong")
		b.shows("this service key is damaged") // the answer to it; until then the button is disabled
		b.signIn(h.createKey("acme", store.ScopeWrite))
		b.shows("This needs a key with scope read")
		b.visit("/ui/keys")
		b.shows("Managing keys needs the scope admin")
	})
	b.story("a request is sent again to another model, beside the first answer", func(t *testing.T) {
		h := windowed(t)
		ask := func(s surface) *answer {
			return h.post(s.path, with(s.said(s.model, "Be brief.", sim("Why?", "So it is.")), `"metadata":{"user_id":"9"},"x_seed":9007199254740993123`))
		}
		a := ask(messages)
		b.open(h, h.invite())
		b.shows("Why?")
		again := func(a *answer) *record.Exchange {
			b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID") + "?tab=replay")
			b.write("model", chat.model)
			b.press("Send it again")
			b.finds(`document.querySelectorAll('.replay .markdown').length === 2 && location.search.includes('with=exch_')`, "both answers")
			return h.record(evaluate[string](b, `new URLSearchParams(location.search).get('with')`))
		}
		if got, want := again(a), strings.Replace(string(h.record(a.exchange()).RawRequest), messages.model, chat.model, 1); string(got.RawRequest) != want {
			t.Errorf("it was sent again as\n%s\nwant, with every digit,\n%s", got.RawRequest, want)
		}
		if got := again(ask(gemini)); got.Surface != gemini.name || got.ModelAsked != chat.model || !strings.Contains(string(got.RawRequest), `"model":"models/`+chat.model) {
			t.Errorf("of Google's it was sent again to %s as\n%s", got.ModelAsked, got.RawRequest)
		}
		for _, k := range h.store.Keys().List("acme") {
			if strings.HasPrefix(k.Label, "replay of") && k.Revoked.IsZero() {
				t.Error("the key of the replay is still good")
			}
		}
	})
	b.story("a session gets a title, a verdict and a note", func(t *testing.T) {
		h := windowed(t)
		a := h.post(chat.path, chat.said(chat.model, "Be brief.", sim("Why?", "So.")))
		b.open(h, h.invite())
		b.shows("Why?")
		b.finds(`document.querySelectorAll('.prompts rect').length === 1`, "a picture of its prompts")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID"))
		b.press("title, tags, note")
		b.write("title", "Of reasons")
		h.post(chat.path, chat.said(chat.model, "Be brief.", sim("Why?", "So."), "So.", sim("And meanwhile?", "A turn."))) // takes nothing from what is typed
		b.shows("And meanwhile?")
		b.write("note", "Ask again.\n<b>Soon.</b>")
		b.press("Save")
		b.shows("<b>Soon.</b>")
		b.finds(`!document.querySelector('[aria-label=good]').click()`, "thumbs")
		b.finds(`document.querySelector('[aria-label=good]').getAttribute('aria-pressed') === 'true'`, "the verdict")
		b.visit("/ui/?tag=good")
		b.shows("Of reasons")
	})
	b.story("a turn gets a verdict and a note", func(t *testing.T) {
		h := windowed(t)
		a := h.post(chat.path, chat.said(chat.model, "Be brief.", sim("Why?", "So.")))
		place := "/ui/sessions/" + a.header.Get("X-Service-Session-ID")
		b.open(h, h.invite())
		b.shows("Why?")
		b.visit(place)
		b.finds(`!document.querySelector('[aria-label="bad turn 1"]').click()`, "thumbs")
		b.finds(`document.querySelector('[aria-label="bad turn 1"]').getAttribute('aria-pressed') === 'true'`, "the verdict")
		b.press("note")
		b.write("note", "That is no reason.\n<b>None.</b>")
		b.press("Save")
		b.shows("<b>None.</b>")
		b.visit("/ui/")
		b.visit(place) // read from the record
		b.shows("<b>None.</b>")
		x := h.record(a.exchange())
		if !slices.Equal(x.Tags, []string{"bad"}) || !strings.HasPrefix(x.Note, "That is no reason.") {
			t.Errorf("on record are %q and %q", x.Tags, x.Note)
		}
		b.open(h, "/ui/")
		b.press("acme")
		b.press("Sign out")
		b.signIn(h.createKey("acme", store.ScopeRead))
		b.visit(place)
		b.shows("<b>None.</b>")
		if evaluate[bool](b, `Boolean(document.querySelector('[aria-label="bad turn 1"]'))`) {
			t.Error("a key that may only read is offered to change it")
		}
	})
	b.story("the address of a session that was merged leads to the one that it became", func(t *testing.T) {
		h := windowed(t)
		say := func(key, question string) *answer {
			return h.post(chat.path, chat.said(chat.model, "Be brief.", sim(question, "Yes.")), "X-Service-Chat-Key", key)
		}
		into := say("a", "Where do quokkas live?").header.Get("X-Service-Session-ID")
		last := say("b", "And wombats?")
		merged := last.header.Get("X-Service-Session-ID")
		_, err := h.store.Archive().MergeSession(t.Context(), "acme", merged, into)
		ok(t, err)
		h.turns(into)
		b.open(h, h.invite())
		b.shows("Where do quokkas live?")
		b.visit("/ui/live")
		b.visit("/ui/sessions/" + merged + "?turn=" + last.exchange())
		b.finds(fmt.Sprintf(`location.pathname + location.search === '/ui/sessions/%s?turn=%s'`, into, last.exchange()), "the address of what it became")
		b.finds(`/Where do quokkas live/.test(document.querySelector('.session-head h1').innerText)`, "its title")
		b.finds(`/turns\s*2/.test(document.querySelector('.sums').innerText)`, "its two turns")
		b.finds(`document.querySelectorAll('.turns button').length === 2`, "both turns")
		evaluate[bool](b, `(history.back(), true)`)
		b.finds(`location.pathname === '/ui/live'`, "the page before it, with one step back")
	})
	b.story("erasing asks for a word", func(t *testing.T) {
		h := windowed(t)
		a := h.post(chat.path, chat.said(chat.model, "Be brief.", sim("Forget me?", "Yes.")))
		b.open(h, h.invite())
		b.shows("Forget me?")
		b.visit("/ui/sessions/" + a.header.Get("X-Service-Session-ID"))
		b.press("erase…")
		b.write("word", "ease")
		b.press("Erase")
		b.shows("Type “erase” to continue.")
		h.record(a.exchange())
		b.write("word", "erase")
		b.press("Erase")
		b.shows("Nothing is on record yet")
		if _, err := h.store.Archive().Exchange("acme", a.exchange()); err == nil {
			t.Error("the exchange is still on record")
		}
	})
	b.story("a key is rotated and revoked", func(t *testing.T) {
		h := windowed(t)
		secret, old, err := h.store.Keys().Create("acme", store.ScopeWrite, "laptop")
		ok(t, err)
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.visit("/ui/keys")
		b.shows("laptop")
		inRow := func(act string) {
			b.finds(fmt.Sprintf(`(() => {
				const row = [...document.querySelectorAll('tr')].find((r) => r.innerText.includes(%q));
				const one = row && [...row.querySelectorAll('button')].find((e) => e.innerText === %q);
				if (one) one.click();
				return Boolean(one);
			})()`, old.ID, act), act)
		}
		inRow("rotate")
		b.press("Rotate")
		b.shows("This key is shown once")
		fresh := evaluate[string](b, `document.querySelector('.secret').innerText`)
		if a := h.post(chat.path, chat.body(`text "hi"`, false), "Authorization", "Bearer "+fresh); a.status != http.StatusOK {
			t.Errorf("with the new key: %d %s", a.status, a.body)
		}
		inRow("revoke")
		b.press("Revoke")
		b.shows("revoked or expired")
		if _, err := h.store.Keys().Authenticate(secret); err == nil {
			t.Error("the old key is still good")
		}
	})
	b.story("an expired sign-in keeps the place", func(t *testing.T) {
		h := windowed(t)
		secret, key, err := h.store.Keys().Create("acme", store.AllScopes, "whole")
		ok(t, err)
		a := h.post(chat.path, chat.said(chat.model, "Be brief.", sim("Still here?", "Yes.")))
		b.open(h, "/ui/")
		b.signIn(secret)
		b.shows("Still here?")
		place := "/ui/sessions/" + a.header.Get("X-Service-Session-ID") + "?tab=raw"
		b.visit(place)
		b.shows("characters")
		ok(t, h.store.Keys().Revoke(key.ID))
		b.press("Context")
		b.shows("Sign in again")
		b.signIn(h.createKey("acme", store.AllScopes))
		b.shows("What fills this request")
		if at := evaluate[string](b, `location.pathname`); !strings.HasPrefix(place, at) {
			t.Errorf("the page is at %s", at)
		}
	})
	b.story("a server that was away is found again", func(t *testing.T) {
		var own *plan
		h := windowed(t, func(p *plan) { own = p })
		b.mu.Lock()
		b.forgive = []string{"ERR_", "status of 503"} // away, or draining
		b.mu.Unlock()
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.visit("/ui/live")
		b.shows("No exchanges yet")
		b.finds(`Boolean(document.querySelector('.state.live'))`, "a live tail")
		ok(t, h.stop())
		b.shows("The server cannot be reached")
		own.server.Listen = []string{strings.TrimPrefix(h.url, "http://")}
		again, err := server.New(own.server)
		ok(t, err)
		h.proxy = again
		h.run()
		b.hides("The server cannot be reached") // nor has anybody to sign in again
		h.post(messages.path, messages.body(`text "hi"`, false))
		b.shows(messages.model)
	})
	b.story("eight tabs follow one tail, which goes on when the tab that has it is left", func(t *testing.T) {
		h := windowed(t)
		b.open(h, h.invite())
		b.shows("Nothing is on record yet")
		b.visit("/ui/live")
		tabs := []context.Context{b.ctx}
		for len(tabs) < 8 { // two more than the connections that a browser opens to a server
			tabs = append(tabs, b.newTab(b.ctx))
			b.in(tabs[len(tabs)-1], func() { b.open(h, "/ui/live") })
		}
		all := func(show func()) {
			for _, tab := range tabs {
				b.in(tab, show)
			}
		}
		all(func() { b.finds(`Boolean(document.querySelector('.state.live'))`, "a live tail") })
		h.post(messages.path, messages.body(`text "hi"`, false))
		all(func() { b.shows(messages.model) })
		b.do(chromedp.Navigate("about:blank"))
		tabs = tabs[1:]
		h.post(chat.path, chat.body(`text "hi"`, false))
		all(func() { b.shows(chat.model) })
		if !b.resumed() {
			t.Error("the tail began without the last event that it had")
		}
	})
	b.story("a server that was killed is found again, with what happened meanwhile", func(t *testing.T) {
		up, err := provider.Start(provider.Options{})
		ok(t, err)
		t.Cleanup(func() { ok(t, up.Close()) })
		dir := t.TempDir()
		p := startProgram(t, dir, up)
		b.mu.Lock()
		b.forgive = []string{"ERR_"}
		b.mu.Unlock()
		b.openAt(p.url, "/ui/live")
		b.signIn(programsKey)
		b.shows("No exchanges yet")
		b.finds(`Boolean(document.querySelector('.state.live'))`, "a live tail")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := p.begin(client, messages, messages.body(`events 1000; delay 1h first=1ms`, true))
		ok(t, err)
		defer response.Body.Close()
		b.finds(`Boolean(document.querySelector('.live .outcome.live'))`, "an open exchange")

		p.kill()
		b.shows("The server cannot be reached")
		again := run(t, programCommand("serve", "--config", filepath.Join(dir, "mneme.yaml"), "--data", filepath.Join(dir, "data"), "--listen", strings.TrimPrefix(p.url, "http://")))
		again.ask(client, chat, chat.body(`text "hi"`, true))
		b.hides("The server cannot be reached") // nor has anybody to sign in again
		b.shows(chat.model)
		b.finds(`document.querySelector('.live').innerText.includes('interrupted')`, "how the answer ended that was open")
		again.ask(client, responses, responses.body(`text "hi"`, true))
		b.shows(responses.model)
		if !b.resumed() {
			t.Error("the tail began without the last event that it had")
		}
	})
}
