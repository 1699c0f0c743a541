import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ago, api, cached, clean, cost, costTitle, count, Empty, full, go, html, input, Link, Model, money, percent, plain, Problem, project, setQuery, useAddress, useKeys, useLoad } from './base.js';
import { Imported } from './story.js';
import { spent } from './subagents.js';

const page = 50;

const spans = { '1d': 1, '7d': 7, '30d': 30 };

const filters = ['project', 'client', 'model', 'outcome', 'tag', 'when'];

// Sessions lists conversations, the newest first.
export function Sessions({ who }) {
  const { query } = useAddress();
  const chosen = Object.fromEntries(filters.map((name) => [name, query.get(name) || '']));
  const [state, set] = useState({ rows: [], more: false, error: null, ready: false, looking: false });
  const [at, setAt] = useState(-1);
  const serial = useRef(0);

  const questions = useRef(0); // that the list took; 0 while it is on its way

  // load asks for the rows behind a session, or the first ones. The server looks through some thousand sessions at a time, so
  // that with filters a page may take several questions; what is found is shown meanwhile.
  const load = useCallback(
    async (after) => {
      const mine = ++serial.current;
      const ask = new URLSearchParams({ limit: String(page), include: 'beginning' });
      for (const name of filters) if (chosen[name] && name !== 'when') ask.set(name, chosen[name]);
      if (spans[chosen.when]) ask.set('since', new Date(Date.now() - spans[chosen.when] * 864e5).toISOString());
      let asked = 0;
      try {
        for (let found = 0, looking = true; looking; ) {
          if (after) ask.set('after', after);
          const fresh = !after;
          const list = await api('/v1/memory/sessions?' + ask);
          if (mine !== serial.current) return;
          asked++;
          found += list.data.length;
          looking = list.has_more && found < page;
          after = list.last_id;
          set((s) => ({ rows: fresh ? list.data : s.rows.concat(list.data), more: list.has_more, last: list.last_id, error: null, ready: true, looking }));
        }
        questions.current = asked;
      } catch (error) {
        if (mine === serial.current) set((s) => ({ ...s, error, ready: true, looking: false }));
      }
    },
    filters.map((name) => chosen[name]),
  );
  useEffect(() => {
    questions.current = 0;
    load();
    const often = setInterval(() => document.visibilityState === 'visible' && scrollY < 40 && questions.current === 1 && load(), 15000);
    return () => clearInterval(often);
  }, [load]);

  // Choices are what the account's reports name, and what the rows do.
  const since = useMemo(() => new Date(Date.now() - 90 * 864e5).toISOString(), []);
  const { data: usage } = useLoad(state.ready ? '/v1/memory/usage?by=project,client&since=' + since : null);
  const values = (name) => [...new Set((usage ? usage.data : []).concat(state.rows).map((line) => line[name]).filter(Boolean))].sort();
  const asked = useAsked(state.ready);
  const models = () => [...new Map(asked.concat(state.rows.flatMap((s) => s.models || [])).map((name) => [name.toLowerCase(), name])).values()].sort();

  const shown = arrange(state.rows);
  const move = (step) => {
    const next = Math.min(Math.max(at + step, 0), shown.length - 1);
    setAt(next);
    const row = document.querySelectorAll('.sessions .row')[next];
    if (row) row.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1), Enter: () => (shown[at] ? go('/ui/sessions/' + shown[at].session.id) : false) });

  const select = (name, label, options) => html`<label>${label}<select value=${chosen[name]} onChange=${(e) => setQuery({ [name]: e.target.value })}>
    <option value="">all</option>
    ${chosen[name] && !options.some((o) => (o.value || o) === chosen[name]) && html`<option value=${chosen[name]}>${chosen[name]}</option>`}
    ${options.map((o) => html`<option value=${o.value || o}>${o.name || project(o) || o}</option>`)}
  </select></label>`;

  if (state.error && !state.rows.length) return html`<${Problem} error=${state.error} again=${() => load()} />`;
  if (state.ready && !state.rows.length && !Object.values(chosen).some(Boolean)) return html`<${FirstStart} who=${who} />`;
  return html`<section class="sessions" aria-busy=${!state.ready}>
    <div class="bar-top">
      <h1>Sessions</h1>
      <div class="filters">
        ${select('project', 'project', values('project'))} ${select('client', 'client', values('client'))} ${select('model', 'model', models())}
        ${select('when', 'when', [{ value: '1d', name: 'a day' }, { value: '7d', name: '7 days' }, { value: '30d', name: '30 days' }])}
        ${select('outcome', 'outcome', [{ value: 'complete', name: 'complete' }, { value: 'incomplete', name: 'not complete' }])}
      </div>
    </div>
    <ul class="list">${shown.map((row, i) => html`${heading(shown, i)}<${Row} ...${row} key=${row.session.id} />`)}</ul>
    ${state.looking && html`<p class="hint" role="status">looking further back…</p>`}
    ${state.ready && !state.looking && !shown.length && html`<${Empty} title="Nothing here"><p>No session fits these filters.</p><//>`}
    ${state.more && !state.looking && html`<button class="more" onClick=${() => load(state.last)}>Show more</button>`}
  </section>`;
}

// useAsked gives the models that were asked for, in small letters; reports name those that were sent, which aliases make others.
// Where there is no search it gives none.
function useAsked(ready) {
  const [names, set] = useState([]);
  useEffect(() => {
    if (!ready) return undefined;
    const control = new AbortController();
    api('/v1/memory/search', { method: 'POST', signal: control.signal, body: { newest: true, limit: 1, facets: true } }).then(
      (answer) => set((answer.facets.model || []).map((v) => v.value)),
      () => {},
    );
    return () => control.abort();
  }, [ready]);
  return names;
}

const dayOf = (row) => new Date(row.session.updated).toDateString();

// heading is the day of a row that begins one, with its sums as far as they are loaded.
function heading(rows, i) {
  if (rows[i].depth || (i && rows.slice(0, i).some((row) => !row.depth && dayOf(row) === dayOf(rows[i])))) return null;
  const those = rows.filter((row) => dayOf(row) === dayOf(rows[i]));
  const own = those.filter((row) => !row.depth).length;
  const usd = spent(those.map((row) => row.session));
  const name = dayOf(rows[i]) === new Date().toDateString() ? 'Today' : dayOf(rows[i]) === new Date(Date.now() - 864e5).toDateString() ? 'Yesterday' : full(rows[i].session.updated).replace(/,.*/, '');
  return html`<li class="day" key=${'day ' + dayOf(rows[i])}><b>${name}</b> ${own} ${own === 1 ? 'session' : 'sessions'} · ${money(usd)}</li>`;
}

// arrange puts what subagents did under the session that they worked for.
function arrange(sessions) {
  const here = new Set(sessions.map((s) => s.id));
  const under = {};
  for (const s of sessions) if (s.parent && here.has(s.parent)) (under[s.parent] = under[s.parent] || []).push(s);
  const rows = [];
  const add = (s, depth) => {
    rows.push({ session: s, depth, children: (under[s.id] || []).length });
    for (const child of under[s.id] || []) add(child, Math.min(depth + 1, 3));
  };
  for (const s of sessions) if (!s.parent || !here.has(s.parent)) add(s, 0);
  return rows;
}

function Row({ session: s, depth, children }) {
  const running = Date.now() - new Date(s.updated) < 60000;
  const failed = s.exchanges - s.completed;
  const name = clean(s.title || s.asked || s.chat_key || s.external_session || 'Untitled');
  return html`<li class=${'depth-' + depth}>
    <${Link} class="row" to=${'/ui/sessions/' + s.id}>
      <span class="when" title=${full(s.updated)}>${running ? html`<i class="dot" aria-label="active now"></i>` : ''}${ago(s.updated)}</span>
      <span class="name">
        <b>${depth ? html`<span aria-hidden="true" class="dim">└ </span>` : ''}${name}</b>
        ${s.answered && html`<span class="said">${plain(s.answered)}</span>`}
        <small>
          ${[s.project && project(s.project), s.client, s.agent && 'agent ' + s.agent, children ? children + (children === 1 ? ' subagent' : ' subagents') : '', failed > 0 && failed + ' not complete']
            .filter(Boolean)
            .map((t, i) => html`${i ? ' · ' : ''}<span>${clean(t)}</span>`)}
          ${s.imported && html` <${Imported} client=${s.client} time=${full(s.imported)} />`}
          ${(s.tags || []).map((t) => html` <span class="tag">${clean(t)}</span>`)}
        </small>
      </span>
      <span class="models"><${Model} name=${(s.models || [])[0]} />${(s.models || []).length > 1 ? html`<small> +${s.models.length - 1}</small>` : ''}</span>
      <${Prompts} of=${s.prompts || []} />
      <span class="num turns">${s.exchanges}<small> ${s.exchanges === 1 ? 'turn' : 'turns'}</small></span>
      <span class="num tokens" title="tokens in, of them from caches">${input(s.usage) ? html`<span>${count(input(s.usage))}</span><small> ${percent(cached(s.usage))} cached</small>` : ''}</span>
      <span class="num cost" title=${costTitle(s.cost)}>${cost(s.cost)}</span>
    <//>
  </li>`;
}

// Prompts is a small picture of how large the prompts of the last turns were.
function Prompts({ of }) {
  const most = 24; // that the server keeps
  const top = Math.max(...of, 1);
  return html`<svg class="prompts" viewBox=${'0 0 ' + most * 3 + ' 16'} role="img" aria-label=${of.length ? 'prompts of the last ' + of.length + ' turns, up to ' + count(top) + ' tokens' : 'no prompts'}>
    ${of.map((tokens, i) => {
      const tall = Math.max((tokens / top) * 16, 1);
      return html`<rect x=${(most - of.length + i) * 3} y=${16 - tall} width="2" height=${tall} />`;
    })}
  </svg>`;
}

// FirstStart says how to lead something here.
function FirstStart({ who }) {
  const origin = location.origin;
  const { data } = useLoad('/v1/health');
  const lines = [
    ['Claude Code', 'mneme wrap claude'],
    ['Codex', 'mneme wrap codex'],
    ['Any OpenAI client', 'export OPENAI_BASE_URL=' + origin + '/v1 OPENAI_API_KEY=$MNEME_KEY'],
    ['curl', "curl " + origin + "/v1/chat/completions -H \"Authorization: Bearer $MNEME_KEY\" -H 'Content-Type: application/json' -d '{\"model\":\"gpt-5-mini\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'"],
  ];
  return html`<section class="first">
    <h1>Nothing is on record yet</h1>
    <p>What goes through this server in account <b>${who.account}</b> shows here as it happens. Lead something to it:</p>
    <dl>${lines.map(([name, text]) => html`<dt>${name}</dt><dd><pre tabindex="0">${text}</pre><${CopyLine} text=${text} /></dd>`)}</dl>
    ${who.scopes.includes('admin') && html`<${NewKey} account=${who.account} />`}
    ${who.histories && html`<p><${Link} to="/ui/import" class="button">Import what agents have kept here<//></p>`}
    <p>Conversations from before: <code>mneme import</code> takes the histories of agents, and exports of another store.</p>
    ${data && data.providers.some((p) => p.simulated) && html`<p class="hint">Families without a provider key are answered by the simulated provider, which is no model.</p>`}
  </section>`;
}

function CopyLine({ text }) {
  const [done, set] = useState(false);
  return html`<button class="quiet" onClick=${() => navigator.clipboard.writeText(text).then(() => set(true))}>${done ? 'copied' : 'copy'}</button>`;
}

function NewKey({ account }) {
  const [key, set] = useState(null);
  const make = async () => set(await api('/v1/admin/keys', { method: 'POST', body: { account, scopes: 'write,read', label: 'first start' } }));
  return key ? html`<p>Shown this once: <code class="secret">${'export MNEME_KEY=' + key.key}</code> <${CopyLine} text=${'export MNEME_KEY=' + key.key} /></p>` : html`<p><button onClick=${make}>Make a key for these lines</button></p>`;
}
