package promptcache

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// A forecast says before a prompt is sent that its cache is lost, and what that costs. Its size is that of the last
// request, its answer as long as the last answers. What only the next request shows, such as other tools, is reported with
// the prompt after it.

// LeastWarning is the default of the least extra cost at which a lost cache is worth a warning.
const LeastWarning = record.Dollar / 20

const (
	forecastTurns  = 100 // newest exchanges of a session that are read
	firstTurns     = 10  // oldest ones, for the size of a fresh session
	mostModels     = 4096
	namingSessions = 100 // newest sessions that show what a short name of a model means
)

// history is the newest exchanges of a session that form one sequence, newest first.
type history []*record.TimelineEntry

// historyOf reads the exchanges of a session's own turns. It is empty if one is still open: then the cache is in use.
func (c *Caches) historyOf(account, session string) (history, error) {
	page, err := c.Archive.Timeline(account, session, record.TimelineQuery{Limit: forecastTurns, Descending: true})
	if err != nil {
		return nil, err
	}
	var newest history
	for i := range page.Data {
		x := &page.Data[i].Exchange
		switch {
		case x.Outcome == record.OutcomeOpen && len(newest) == 0:
			return nil, nil
		case x.Auxiliary == "" && leavesCache(x) && (len(newest) == 0 || newest[0].Exchange.Surface == x.Surface):
			newest = append(newest, &page.Data[i])
		}
	}
	return newest, nil
}

func (s history) last() *record.ExchangeInfo { return &s[0].Exchange }

// output returns the mean length of the answers.
func (s history) output() (tokens int64) {
	for _, e := range s {
		tokens += e.Exchange.Usage.Output / int64(len(s))
	}
	return tokens
}

// since returns the newest exchange that asked a model, nil if none did, and by how many tokens the conversation has grown since.
func (s history) since(model string) (x *record.ExchangeInfo, grown int64) {
	for i, e := range s {
		grown = codec.AddCounts(grown, max(e.Exchange.Usage.Output-e.Exchange.Usage.Reasoning, 0))
		if asks(&e.Exchange, model) {
			return &s[i].Exchange, grown
		}
		grown = codec.AddCounts(grown, said(e.Turn)/TokenBytes)
	}
	return nil, 0
}

// asks reports whether an exchange asked a model, or was served by it.
func asks(x *record.ExchangeInfo, model string) bool {
	return model == plainModel(x.ModelAsked) || model == plainModel(x.ModelSent)
}

// said returns how many bytes a turn added to the conversation before its answer.
func said(t *record.Turn) (bytes int64) {
	if t == nil {
		return 0
	}
	for i := range t.Messages {
		for j := range t.Messages[i].Parts {
			p := &t.Messages[i].Parts[j]
			bytes += int64(len(p.Text) + len(p.Arguments))
		}
	}
	return bytes
}

// next returns what the next request uses: with the cache of the last one, and without it. Another model still has what it was
// asked before, if that is not long ago; a client may offer it more than the model before, which lead has in tokens.
func (s history) next(prompt int64, model string, lead func() int64, now time.Time) (warm, cold codec.Usage) {
	last := s.last()
	use := func(x *record.ExchangeInfo, grown, held int64) codec.Usage {
		u := codec.Usage(x.Usage)
		size := codec.AddCounts(codec.AddCounts(u.TotalInput(), grown), prompt)
		next := codec.Usage{CacheRead: min(held, size), Output: s.output()}
		rest := size - next.CacheRead
		if last.Usage.CacheWrite == 0 && u.CacheWrite == 0 {
			next.InputUncached = rest
			return next
		}
		next.CacheWrite = rest
		if u.CacheLong > 0 {
			next.CacheLong = rest
		}
		return next
	}
	_, grown := s.since(plainModel(last.ModelSent))
	warm = use(last, grown, last.Usage.CacheRead+last.Usage.CacheWrite)
	if model == "" {
		return warm, use(last, grown, 0)
	}
	other, since := s.since(model)
	switch {
	case other == nil:
		return warm, use(last, codec.AddCounts(grown, lead()), 0)
	case now.After(other.LastByte.Add(lifeOf(other))):
		return warm, use(other, since, 0)
	}
	return warm, use(other, since, other.Usage.CacheRead+other.Usage.CacheWrite)
}

// forecast returns what the next prompt of a session costs. model is the one that the client is going to ask; "": the same.
func (c *Caches) forecast(account, session, model string, s history, prompt int64) *api.Forecast {
	f := &api.Forecast{Object: "memory.forecast", Session: session}
	if len(s) == 0 {
		return f
	}
	last, now := s.last(), c.Clock()
	life := lifeOf(last)
	f.Kept = life.Milliseconds()
	if life > 0 && !last.LastByte.IsZero() {
		f.Ends = last.LastByte.Add(life)
	}
	f.Idle = max(now.Sub(last.LastByte), 0).Milliseconds()
	asked := last.ModelSent
	if other := plainModel(model); other != "" && !asks(last, other) {
		f.Before, f.Now, asked = last.ModelAsked, other, other
	}
	warm, cold := s.next(prompt, f.Now, func() int64 { return c.lead(account, last, f.Now) }, now)
	f.Tokens = cold.TotalInput()
	if cached := last.Usage.CacheRead + last.Usage.CacheWrite; cached >= leastLost {
		switch {
		case f.Now != "":
			f.Reason = api.BrokenByModel
		case !f.Ends.IsZero() && now.After(f.Ends):
			f.Reason = api.BrokenByPause
		}
	}
	c.price(account, f, last, asked, &warm, &cold)
	if f.Reason != "" && f.Cold-f.Warm >= c.Warn && f.Cold > 0 && c.Warn >= 0 {
		f.Text = forewarn(f)
	}
	return f
}

// lead returns by how many tokens a client's tools and instructions for another model are longer than those in a request, by
// the newest session in which it asked that model; 0 if there is none, negative if they are shorter.
func (c *Caches) lead(account string, last *record.ExchangeInfo, model string) int64 {
	page, err := c.Archive.Sessions(account, record.SessionQuery{Limit: namingSessions})
	if err != nil {
		return 0
	}
	for i := range page.Data {
		session := &page.Data[i]
		if session.ID == last.Session || session.Client != last.Client() || !slices.ContainsFunc(session.Models, func(m string) bool { return plainModel(m) == model }) {
			continue
		}
		turns, err := c.Archive.Timeline(account, session.ID, record.TimelineQuery{Limit: firstTurns, Descending: true})
		if err != nil {
			continue
		}
		for j := range turns.Data {
			if x := &turns.Data[j].Exchange; x.Auxiliary == "" && x.Surface == last.Surface && leavesCache(x) && asks(x, model) {
				if there, here := c.fixedTokens(account, x.ID), c.fixedTokens(account, last.ID); there > 0 && here > 0 {
					return there - here
				}
				return 0
			}
		}
	}
	return 0
}

// fixedTokens returns the size of what is in front of the conversation in a request.
func (c *Caches) fixedTokens(account, id string) int64 {
	x, err := c.Archive.Exchange(account, id)
	if err != nil || len(x.RawRequest) == 0 {
		return 0
	}
	bytes := int64(0)
	Fixed(Prefix(x.RawRequest), func(_ string, text []byte) { bytes += int64(len(text)) })
	return bytes * codec.Usage(x.Usage).TotalInput() / int64(len(x.RawRequest))
}

// price adds what the next request costs.
func (c *Caches) price(account string, f *api.Forecast, last *record.ExchangeInfo, model string, warm, cold *codec.Usage) {
	if c.Prices == nil {
		return
	}
	now := c.Clock()
	before := c.Prices.Price(last.Provider, last.ModelSent, now)
	price := c.Prices.Price(last.Provider, model, now)
	if before == nil || price == nil {
		return
	}
	f.Warm, f.Cold = record.USD(before.Bill(warm, now).Cost), record.USD(price.Bill(cold, now).Cost)
	if f.Reason == "" {
		return
	}
	fresh := *cold
	size := c.freshSize(account, f.Session)
	if fresh.CacheWrite = min(fresh.CacheWrite, size); fresh.CacheWrite == 0 {
		fresh.InputUncached = min(fresh.InputUncached, size)
	}
	fresh.CacheLong = min(fresh.CacheLong, fresh.CacheWrite)
	if cost := record.USD(price.Bill(&fresh, now).Cost); size > 0 && cost < f.Cold {
		f.Fresh = cost
	}
}

// freshSize returns how many tokens the first prompt of a session like this one has, with a handoff; 0: unknown.
func (c *Caches) freshSize(account, session string) int64 {
	page, err := c.Archive.Timeline(account, session, record.TimelineQuery{Limit: firstTurns})
	if err != nil {
		return 0
	}
	for i := range page.Data {
		if x := &page.Data[i].Exchange; x.Auxiliary == "" && leavesCache(x) {
			return codec.AddCounts(codec.Usage(x.Usage).TotalInput(), recall.SessionTokens)
		}
	}
	return 0
}

// plainModel returns the name of a model without what clients append to it for themselves, such as "[1m]".
func plainModel(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return name
}

// forewarn writes a forecast as a warning.
func forewarn(f *api.Forecast) string {
	why := "Idle " + roughly(time.Duration(f.Idle)*time.Millisecond)
	if f.Reason == api.BrokenByModel {
		why = fmt.Sprintf("The model changes from %s to %s", f.Before, f.Now)
	}
	text := fmt.Sprintf("%s, %s tokens, cache gone: this turn costs about %s instead of %s.", why, thousands(f.Tokens), f.Cold.Rounded(), f.Warm.Rounded())
	if f.Fresh > 0 {
		text += fmt.Sprintf(" A fresh session with a handoff: about %s.", f.Fresh.Rounded())
	}
	return text
}

// roughly writes a pause in its largest unit.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	case d >= time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// thousands writes a number of tokens, as in "225k".
func thousands(tokens int64) string {
	if tokens < 10_000 {
		return strconv.FormatInt(tokens, 10)
	}
	return fmt.Sprintf("%dk", (tokens+500)/1000)
}

// surprise returns a sentence about the costliest break in the newest round that only its requests show; "" for none.
func (c *Caches) surprise(account string, s history) string {
	t := c.NewTally()
	for i, e := range s {
		t.Add(&e.Exchange)
		if i > 0 && search.Opens(s[i-1].Turn) {
			break // s[i] is the last one before the round
		}
	}
	unexplained := slices.DeleteFunc(t.report.Breaks, func(b *api.CacheBreak) bool { return b.Reason != "" })
	if len(unexplained) == 0 {
		return ""
	}
	b := slices.MinFunc(unexplained, costliest)
	if b.Lost < max(c.Warn, 1) {
		return ""
	}
	c.open(account, b)
	var why string
	switch b.Reason {
	case api.BrokenByTools:
		why = "other tools were offered" + named(b.Names)
	case api.BrokenByOrder:
		why = "the same tools came in another order"
	case api.BrokenByBlock:
		why = fmt.Sprintf("block %d of its %s differs", b.Index+1, b.Kind)
	default:
		return ""
	}
	return fmt.Sprintf("The last turn paid for %s tokens again, %s more than from the cache: %s.", thousands(b.Tokens), b.Lost.Rounded(), why)
}

// named lists what differs, in brackets.
func named(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// Warning returns what a person should know before a prompt of so many bytes is sent; "" for nothing. known is the
// session's id at the client, and model the one that is going to be asked, if the client names it.
func (c *Caches) Warning(account, session, known, model string, prompt int) string {
	if c.Warn < 0 {
		return ""
	}
	s, err := c.historyOf(account, session)
	if err != nil || len(s) == 0 {
		return "" // a damaged record gives no warning
	}
	if model == "" {
		model = c.models.since(account, known, s.last().Started)
	}
	texts := []string{c.surprise(account, s), c.forecast(account, session, c.wholeName(account, model), s, int64(prompt)/TokenBytes).Text}
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), " ")
}

// Forecast returns what the next prompt of a session costs. model is the one that is going to be asked; "": the last one.
func (c *Caches) Forecast(account, session, model string) (*api.Forecast, error) {
	s, err := c.historyOf(account, session)
	if err != nil {
		return nil, err
	}
	return c.forecast(account, session, c.wholeName(account, model), s, 0), nil
}

// wholeName returns the model that a client means by a short name, such as sonnet: the one of that name that the account asked
// last; "" if it did not.
func (c *Caches) wholeName(account, name string) string {
	short := strings.ToLower(plainModel(name))
	if short == "" || strings.ContainsAny(short, "-./:0123456789") {
		return name
	}
	page, err := c.Archive.Sessions(account, record.SessionQuery{Limit: namingSessions})
	if err != nil {
		return ""
	}
	for i := range page.Data {
		for _, model := range slices.Backward(page.Data[i].Models) {
			if slices.Contains(strings.Split(strings.ToLower(model), "-"), short) {
				return model
			}
		}
	}
	return ""
}

// Started notes the model that a client names when a session is started or resumed, by the client's id of the session.
func (c *Caches) Started(account, known, model string) {
	c.models.note(account, known, model, c.Clock())
}

// startedModels are the models with which sessions were started, by the hooks of clients that name it only then.
type startedModels struct {
	mu sync.Mutex
	of map[startedSession]startedModel
}

type startedSession struct{ account, session string }

type startedModel struct {
	name string
	at   time.Time
}

// note keeps what can be the id of a session and the name of a model.
func (m *startedModels) note(account, session, model string, now time.Time) {
	if clients.KeptID(session) == "" || model == "" || len(model) > record.MaxModelName {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= mostModels { // a model that is forgotten is reported after its turn
		m.of = make(map[startedSession]startedModel)
	}
	m.of[startedSession{account, session}] = startedModel{model, now}
}

// since returns the model of a session that was started after a time; "": it was not.
func (m *startedModels) since(account, session string, after time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if started := m.of[startedSession{account, session}]; started.at.After(after) {
		return started.name
	}
	return ""
}
