package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/search"
)

// searching is a harness whose memory can be searched.
func searching(t *testing.T, change ...func(*plan)) *harness {
	h := build(t, append(change, func(p *plan) {
		dir := filepath.Join(p.store.Dir, "index")
		p.store.Digest = digest.Exchange
		p.index = &search.Options{Dir: dir}
	})...)
	h.key = h.createKey("acme", store.AllScopes)
	return h
}

// find searches once everything that was said is indexed.
func (h *harness) find(key, request string) (status int, found search.Answer, text string) {
	h.t.Helper()
	a := h.do(http.MethodPost, "/v1/memory/search", request, "Authorization", "Bearer "+key, "X-Service-Memory-Wait", "indexed")
	if a.status == http.StatusOK {
		ok(h.t, json.Unmarshal([]byte(a.body), &found))
	}
	return a.status, found, a.body
}

// What a client has just been answered on any surface is found by a search that waits for it, and by no other account.
func TestAFreshAnswerIsFound(t *testing.T) {
	h := searching(t)
	h.account("globex")
	stranger := h.createKey("globex", store.AllScopes)
	for _, s := range generating {
		word := "quokka" + s.name
		exchange := h.post(s.path, s.said(s.model, "Be brief.", sim("where do "+word+" live", "on Rottnest, says pkg/"+word+".go"))).header.Get("X-Service-Exchange-ID")
		for _, query := range []string{word, "name:pkg/" + word + ".go", "user:" + word, `\"on Rottnest\" ` + "+" + word} {
			status, found, body := h.find(h.key, `{"query":"`+query+`"}`)
			if status != 200 || len(found.Data) != 1 || found.Data[0].Exchange != exchange || found.Index.Lag != 0 {
				t.Errorf("%s: %s finds %d %s, want %s", s.name, query, status, body, exchange)
			}
			if _, foreign, body := h.find(stranger, `{"query":"`+query+`"}`); len(foreign.Data) > 0 {
				t.Errorf("%s: another account finds %s", s.name, body)
			}
		}
		if _, found, body := h.find(h.key, `{"query":"brief"}`); len(found.Data) > 0 {
			t.Errorf("%s: the system prompt is found: %s", s.name, body)
		}
	}
}

// A history that is sent again with every request is found once: in the turn that said it.
func TestAResentHistoryIsFoundOnce(t *testing.T) {
	h := searching(t)
	first := sim("tell of the axolotl", "It regrows limbs.")
	session := h.session(chat.path, chat.said(chat.model, "", first), "X-Service-Chat-Key", "k")
	h.turns(session)
	h.session(chat.path, chat.said(chat.model, "", first, "It regrows limbs.", sim("and of the newt", "Likewise.")), "X-Service-Chat-Key", "k")
	if _, found, body := h.find(h.key, `{"query":"axolotl"}`); len(found.Data) != 1 || len(found.Data[0].Duplicates) > 0 {
		t.Errorf("found %s, want the first turn alone", body)
	}
}

func TestSearchesNeedTheScopeReadAndAValidQuery(t *testing.T) {
	h := searching(t)
	writer := h.createKey("acme", store.ScopeWrite)
	for name, c := range map[string]struct {
		key, body string
		status    int
		says      string
	}{
		"no scope":    {writer, `{"query":"x"}`, 403, "read"},
		"bad query":   {h.key, `{"query":"lock \"time"}`, 400, "byte 5"},
		"no words":    {h.key, `{"query":""}`, 400, "no word"},
		"no JSON":     {h.key, `{`, 400, "JSON"},
		"bad member":  {h.key, `{"query":"x","account":"globex"}`, 400, `Unknown member \"account\"`},
		"bad type":    {h.key, `{"query":7}`, 400, "query cannot be a JSON number"},
		"bad inside":  {h.key, `{"query":"x","ranking":{"least_likeness":"low"}}`, 400, "ranking.least_likeness cannot be a JSON string"},
		"bad filter":  {h.key, `{"query":"x","filters":{"field":"mood","op":"eq"}}`, 400, "mood"},
		"found never": {h.key, `{"query":"unheard"}`, 200, `"data":[]`},
	} {
		status, _, body := h.find(c.key, c.body)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s, want %d with %q", name, status, body, c.status, c.says)
		}
	}
	if a := h.do(http.MethodPost, "/v1/memory/search", `{"query":"x"}`, "Authorization", "Bearer "+h.key, "X-Service-Memory-Wait", "forever"); a.status != 400 {
		t.Errorf("an unknown thing to wait for: %d %s", a.status, a.body)
	}
	if a := h.get("/stats"); !strings.Contains(a.body, `"index":{"lag_seq":`) {
		t.Errorf("stats say nothing of the index: %s", a.body)
	}
}

// An erased conversation is on no path of the memory any more: no list, search, export or backup.
func TestErasedDataIsShownNowhere(t *testing.T) {
	const secret = "marmalade"
	h := searching(t)
	kept := h.post(chat.path, chat.said(chat.model, "", sim("something harmless", "noted"))).exchange()
	first := sim("my secret is "+secret, "noted: "+secret)
	session := h.session(chat.path, chat.said(chat.model, "", first), "X-Service-Chat-Key", secret)
	exchange := h.post(chat.path, chat.said(chat.model, "", first, "noted: "+secret, sim("what was it?", secret)), "X-Service-Chat-Key", secret).exchange()
	h.turns(session)
	h.ask(http.StatusOK, http.MethodPatch, "/sessions/"+session, `{"title":"of `+secret+`","tags":["`+secret+`"]}`)

	shown := func() (where []string) {
		search := func(more string) string { _, _, text := h.find(h.key, `{"query":"`+secret+`"`+more+`}`); return text }
		for name, text := range map[string]string{
			"the list of sessions":      h.get("/sessions").body,
			"the session":               h.do(http.MethodGet, "/v1/memory/sessions/"+session, "", "Authorization", "Bearer "+h.key).body,
			"its timeline":              h.do(http.MethodGet, "/v1/memory/sessions/"+session+"/timeline", "", "Authorization", "Bearer "+h.key).body,
			"the list of exchanges":     h.get("/exchanges").body,
			"an exchange":               h.do(http.MethodGet, "/v1/memory/exchanges/"+exchange+"?include=raw_request,raw_response,normalized", "", "Authorization", "Bearer "+h.key).body,
			"a search by words":         search(`,"mode":"lexical"`),
			"a search by vectors":       search(`,"mode":"vector"`),
			"a search by both":          search(`,"mode":"hybrid","explain":true`),
			"a search for sessions":     search(`,"granularity":"session"`),
			"the export":                h.get("/export.jsonl").body,
			"the export of the session": h.get("/export.jsonl?session=" + session).body,
			"a backup":                  h.backup(),
		} {
			if strings.Contains(text, secret) {
				where = append(where, name)
			}
		}
		slices.Sort(where)
		return where
	}
	if before := shown(); len(before) < 12 {
		t.Fatalf("before the erasure it is shown in %q only", before)
	}
	h.erased(member(h.ask(http.StatusAccepted, http.MethodDelete, "/sessions/"+session, "").body, "id"))
	eventually(t, func() error {
		if where := shown(); len(where) > 0 {
			return fmt.Errorf("still shown in %q", where)
		}
		return nil
	})
	if _, found, body := h.find(h.key, `{"query":"harmless"}`); len(found.Data) != 1 || found.Data[0].Exchange != kept {
		t.Errorf("what stays is found as %s", body)
	}
}

// backup is the bytes of a backup, uncompressed.
func (h *harness) backup() string {
	h.t.Helper()
	var file bytes.Buffer
	_, err := h.store.Upkeep().Backup(h.t.Context(), &file, 0)
	ok(h.t, err)
	if _, err := file.ReadBytes('\n'); err != nil { // the header
		h.t.Fatal(err)
	}
	z, err := zstd.NewReader(&file)
	ok(h.t, err)
	defer z.Close()
	text, err := io.ReadAll(z)
	ok(h.t, err)
	return string(text)
}

// Scripts without blanks between words, and emoji, are found.
func TestWhatHasNoBlanksIsFound(t *testing.T) {
	h := searching(t)
	for text, query := range map[string]string{
		"วันนี้ระบบฐานข้อมูลล่มเพราะดิสก์เต็ม": "ฐานข้อมูล",
		"ថ្ងៃនេះមូលដ្ឋានទិន្នន័យគាំង":          "ទិន្នន័យ",
		"deploy 🚀 done": "🚀",
	} {
		exchange := h.post(chat.path, chat.said(chat.model, "Be brief.", sim(text, "ok"))).exchange()
		if status, found, body := h.find(h.key, `{"query":"`+query+`"}`); status != 200 || len(found.Data) != 1 || found.Data[0].Exchange != exchange {
			t.Errorf("%s in %s: %d %s", query, text, status, body)
		}
	}
}
