import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, Bar, between, bytes, cached, clean, clock, Copy, cost, costTitle, count, Empty, full, go, html, input, lasted, Link, Model, money, Outcome, percent, Problem, project, setQuery, useAddress, useKeys, useLoad, useTitle } from './base.js';
import { Ask } from './ask.js';
import { download, Handoff } from './handoff.js';
import { Note, Tags, Thumbs, useRemark } from './remark.js';
import { Below, Subagents, useCalled, useSubagents } from './subagents.js';
import { Replay } from './replay.js';
import { Long } from './long.js';
import { Media } from './media.js';
import { useTail } from './tail.js';
import { Tree } from './tree.js';
import { Cost, Forecast, why } from './cache.js';
import { Causes, partNames } from './costs.js';
import { Fold, folded, question } from './rounds.js';
import { Imported, Story, Unrecorded } from './story.js';
import { laidOut, members } from './json.js';
import { Body, Diff, Markdown, Plain } from './text.js';

const page = 100;
const aScreen = 12; // turns that are read first, since they show at once

const tabs = [
  ['', 'Conversation'],
  ['context', 'Context'],
  ['raw', 'Raw'],
  ['translated', 'Translated'],
  ['attempts', 'Attempts'],
  ['replay', 'Replay'],
];

// useTimeline loads the turns of a session, page by page, and follows it while it grows.
function useTimeline(id) {
  const [state, set] = useState({ turns: [], ready: false, error: null });
  const follow = useRef(null);
  useEffect(() => {
    let open = true;
    let busy = false;
    let again = false;
    let drawn = -1000; // when the turns were shown last: thousands of them come in many pages
    const turns = new Map();
    const inOrder = () => [...turns.values()].sort((a, b) => (a.exchange.id < b.exchange.id ? -1 : 1));
    // settled is the last turn of those in front that stay as they are: what was not known of the others may have come.
    const settled = () => {
      const all = inOrder();
      const first = all.findIndex(({ exchange, turn }) => exchange.outcome === 'open' || !(turn || exchange.auxiliary));
      const last = all[(first < 0 ? all.length : first) - 1];
      return last ? last.exchange.id : '';
    };
    const load = async () => {
      again = true;
      if (busy) return;
      busy = true;
      try {
        while (again && open) {
          again = false;
          let after = settled();
          for (let more = true; more && open; ) {
            const list = await api('/v1/memory/sessions/' + id + '/timeline?limit=' + (turns.size ? page : aScreen) + (after ? '&after=' + after : ''));
            for (const entry of list.data) turns.set(entry.exchange.id, entry);
            more = list.has_more;
            after = list.last_id;
            if (open && (!more || performance.now() - drawn > 500)) {
              drawn = performance.now();
              set({ turns: inOrder(), ready: !more, error: null });
            }
          }
        }
      } catch (error) {
        if (open) set((s) => ({ ...s, error, ready: true }));
      }
      busy = false;
    };
    load();
    let asking = false;
    let asked = false;
    const newest = async () => {
      asked = true;
      if (asking) return; // one at a time, however fast they come
      asking = true;
      while (asked && open) {
        asked = false;
        await one();
      }
      asking = false;
    };
    const one = async () => {
      try {
        const list = await api('/v1/memory/sessions/' + id + '/timeline?limit=5&order=desc');
        for (const entry of list.data) turns.set(entry.exchange.id, entry);
        if (open) set((s) => ({ ...s, turns: inOrder(), error: null }));
      } catch {
        // the tail says when there is more
      }
    };
    follow.current = (kind, event) => {
      if (kind === 'missed') load();
      else if (event.session === id) newest();
    };
    return () => {
      open = false;
    };
  }, [id]);
  useTail((kind, event) => follow.current && follow.current(kind, event));
  return state;
}

// Session shows one conversation.
export function Session({ id, who }) {
  const { query } = useAddress();
  const [changed, setChanged] = useState(0);
  const { data: session, error } = useLoad('/v1/memory/sessions/' + id, changed);
  const { turns, ready, error: broken } = useTimeline(id);
  const became = session && session.merged_into; // what is left of this one is empty
  useEffect(() => {
    if (became) go('/ui/sessions/' + became + location.search, true);
  }, [became]);
  const subagents = useSubagents(id, turns.length);
  const called = useCalled(turns, subagents);
  const tab = query.get('tab') || '';
  const chosen = query.get('turn') || '';
  const real = turns.filter((t) => !t.exchange.auxiliary);
  const all = Boolean(query.get('all'));
  const branch = query.get('branch') || '';
  const { tree, numbers } = useMemo(() => {
    const shown = all ? turns : real;
    return { tree: new Tree(shown), numbers: new Map(shown.map((t, i) => [t.exchange.id, i + 1])) };
  }, [turns, all]);
  const path = useMemo(() => {
    const along = tree.path(branch);
    return chosen && !along.some((step) => step.entry.exchange.id === chosen) ? tree.path(chosen) : along;
  }, [tree, branch, chosen]);
  const at = path.findIndex((step) => step.entry.exchange.id === chosen);
  const here = at >= 0 ? at : path.length - 1;
  const current = path.length ? path[here].entry : undefined;
  const jumped = useRef('');
  const [unfolded, setUnfolded] = useState(new Set());
  const items = useMemo(() => folded(path, unfolded, chosen), [path, unfolded, chosen]);
  const place = current ? items.findIndex((item) => item.step && item.step.entry === current) : -1;
  const toggle = (round) => setUnfolded((all) => new Set(all.has(round) ? [...all].filter((id) => id !== round) : [...all, round]));
  const folds = useMemo(() => items.some((item) => item.fold) || path.filter((step) => step.entry.opens).length > 1, [items]);
  useTitle(session && !became ? session.title || session.asked || 'Session' : 'Session');

  const choose = (step) => {
    const from = at >= 0 ? at : step > 0 ? -1 : path.length;
    const next = path[Math.min(Math.max(from + step, 0), path.length - 1)];
    if (next) setQuery({ turn: next.entry.exchange.id });
  };
  const show = (name) => () => setQuery({ tab: tab === name ? '' : name, turn: current ? current.exchange.id : '' }, false);
  useKeys({ j: () => choose(1), k: () => choose(-1), c: show(''), x: show('context'), r: show('raw'), t: show('translated'), a: show('attempts'), p: show('replay'), Escape: () => (tab ? setQuery({ tab: '' }) : false) });
  useEffect(() => {
    if (!chosen || jumped.current === chosen + tab) return;
    const there = document.getElementById('turn-' + chosen);
    if (there) {
      jumped.current = chosen + tab;
      there.scrollIntoView({ block: 'start' });
    }
  }, [chosen, tab, turns.length]);
  useEffect(() => {
    const row = chosen && document.querySelector('.turns .here');
    if (row) scrollList(row);
  }, [chosen, ready]);

  if (error) return html`<${Problem} error=${error} again=${() => setChanged((n) => n + 1)} />`;
  if (broken && !turns.length) return html`<${Problem} error=${broken} />`;
  if (!session || became) return html`<section class="session" aria-busy="true"></section>`;
  const largest = real.reduce((most, t) => Math.max(most, input(t.exchange.usage)), 1);
  return html`<article class="session">
    <${Head} session=${session} subagents=${subagents} who=${who} changed=${() => setChanged((n) => n + 1)} />
    <div class="split">
      <aside class="turns" aria-label="Turns">
        <div role="list"><${Long} items=${items} tall=${27} wanted=${place} draw=${(item, i) =>
          item.fold
            ? html`<div role="listitem" key=${'fold ' + item.fold.id}><${Fold} fold=${item.fold} toggle=${toggle} small=${true} /></div>`
            : html`<${TurnLink} step=${item.step} before=${beforeIn(items, i)} number=${numbers.get(item.step.entry.exchange.id)} largest=${largest} here=${i === place} asks=${folds ? question(item.step.entry, woven) : ''} key=${item.step.entry.exchange.id} />`} /></div>
        ${turns.length > real.length && html`<button class="quiet" onClick=${() => setQuery({ all: all ? '' : '1' })}>${all ? 'hide' : 'show'} ${turns.length - real.length} of the client’s own requests</button>`}
        ${!ready && html`<p class="hint">loading…</p>`}
      </aside>
      <div class="pane">
        <div class="tabs" role="tablist" aria-label="What to show">${tabs.map(([name, label]) => html`<button role="tab" aria-selected=${tab === name} aria-controls="pane" tabindex=${tab === name ? 0 : -1} onClick=${show(name)} onKeyDown=${(e) => arrows(e)}>${label}</button>`)}
          ${current && tab && html`<span class="which">turn ${numbers.get(current.exchange.id)} · ${clock(current.exchange.started)} · <${Model} name=${current.exchange.model_served || current.exchange.model_asked} /></span>`}
        </div>
        <div id="pane" role="tabpanel" tabindex="0" aria-label=${(tabs.find(([n]) => n === tab) || tabs[0])[1]}>
          ${!tab && html`<${Subagents.Provider} value=${called}><${Transcript} path=${path} items=${items} toggle=${toggle} numbers=${numbers} chosen=${chosen} at=${at >= 0 ? place : -1} who=${who} /><//>`}
          ${current && current.exchange.imported && unrecorded[tab] && html`<${Unrecorded} what=${unrecorded[tab]} />`}
          ${tab === 'context' && current && !current.exchange.imported && html`<${Context} id=${current.exchange.id} session=${session.id} numbers=${numbers} key=${current.exchange.id} />`}
          ${tab === 'raw' && current && !current.exchange.imported && html`<${Raw} id=${current.exchange.id} key=${current.exchange.id} />`}
          ${tab === 'translated' && current && !current.exchange.imported && html`<${Translated} id=${current.exchange.id} key=${current.exchange.id} />`}
          ${tab === 'replay' && current && !current.exchange.imported && html`<${Replay} x=${current.exchange} who=${who} key=${current.exchange.id} />`}
          ${tab === 'attempts' && current && html`<${Attempts} x=${current.exchange} key=${current.exchange.id} />`}
        </div>
      </div>
    </div>
  </article>`;
}

// unrecorded are the tabs that have nothing of an imported exchange.
const unrecorded = { context: 'The request', raw: 'The request and its answer', translated: 'The request', replay: 'The request' };

// beforeIn is the turn in front of an item, if it is in the list.
function beforeIn(items, i) {
  const before = items[i - 1];
  return before ? (before.step || before.fold.round[before.fold.round.length - 2]).entry : null;
}

// scrollList scrolls the list of turns alone, as far as it takes for a row to show.
function scrollList(row) {
  const list = row.closest('.turns');
  const [seen, at] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
  list.scrollTop += Math.min(at.top - seen.top, 0) + Math.max(at.bottom - seen.bottom, 0);
}

function arrows(e) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  if (!step) return;
  const all = [...e.target.parentNode.querySelectorAll('[role=tab]')];
  const next = all[(all.indexOf(e.target) + step + all.length) % all.length];
  next.focus();
  next.click();
}

function Head({ session: s, subagents, who, changed }) {
  const [editing, setEditing] = useState(false);
  const name = clean(s.title || s.asked || s.chat_key || 'Untitled');
  const [erasing, setErasing] = useState(false);
  const [handing, setHanding] = useState(false);
  const [error, setError] = useState('');
  const share = () => download(s, name).then(() => setError(''), (failure) => setError(failure.message));
  const describe = async (change) => {
    try {
      setError('');
      await api('/v1/memory/sessions/' + s.id, { method: 'PATCH', body: change });
      setEditing(false);
      changed();
    } catch (failure) {
      setError(failure.message);
    }
  };
  const tags = s.tags || [];
  const save = (e) => {
    e.preventDefault();
    const form = new FormData(e.target);
    describe({ title: String(form.get('title')), tags: String(form.get('tags')).split(',').map((t) => t.trim()).filter(Boolean), note: String(form.get('note')).trim() });
  };
  return html`<header class="session-head">
    <div>
      ${editing
        ? html`<form class="inline" onSubmit=${save}><label>Title<input name="title" defaultValue=${s.title || s.asked || ''} maxlength="200" /></label><label>Tags<input name="tags" defaultValue=${(s.tags || []).join(', ')} placeholder="separated by commas" /></label><label class="wide">Note<textarea name="note" rows="3" maxlength="1000">${s.note || ''}</textarea></label><button class="primary">Save</button><button type="button" onClick=${() => setEditing(false)}>Cancel</button></form>`
        : html`<h1 title=${name}>${name}</h1>`}
      <p class="sub">
        ${[s.project && html`<span title=${s.project}>${clean(project(s.project))}</span>`, s.client, s.agent && 'agent ' + s.agent, full(s.created)].filter(Boolean).map((t, i) => html`${i ? ' · ' : ''}${t}`)}
        ${s.parent && html` · <${Link} to=${'/ui/sessions/' + s.parent}>parent session<//>`}
        ${s.imported && html` <${Imported} client=${s.client} time=${full(s.imported)} />`}
        <${Tags} tags=${s.tags} />
      </p>
      <${Below} of=${subagents} />
      ${!editing && html`<${Note} text=${s.note} />`}
      <${Story} of=${s.story} heading=${name} directory=${s.project} />
    </div>
    <dl class="sums">
      <div title=${costTitle(s.cost)}><dt>cost</dt><dd>${cost(s.cost)}</dd></div>
      <div><dt>in</dt><dd>${count(input(s.usage))}</dd></div>
      <div><dt>cached</dt><dd>${percent(cached(s.usage))}</dd></div>
      <div><dt>out</dt><dd>${count((s.usage || {}).output || 0)}</dd></div>
      <div><dt>turns</dt><dd>${s.exchanges - (s.auxiliary || 0)}</dd></div>
    </dl>
    <div class="acts">
      ${who.scopes.includes('write') && html`<button class="quiet" onClick=${() => setEditing(!editing)}>title, tags, note</button>`}
      <${Copy} text=${() => location.origin + '/ui/sessions/' + s.id} label="copy link" />
      <button class="quiet" onClick=${() => setHanding(true)} title="lets another agent go on with it">hand over…</button>
      <button class="quiet" onClick=${share} title="saves its newest branch as one page to share: no script, credentials masked">share as page</button>
      ${who.scopes.includes('write') && html`<${Thumbs} tags=${tags} change=${describe} />`}
      ${who.scopes.includes('erase') && html`<button class="quiet bad" onClick=${() => setErasing(true)}>erase…</button>`}
    </div>
    <${Forecast} session=${s.id} turns=${s.exchanges} />
    ${error && html`<p class="error" role="alert">${error}</p>`}
    ${handing && html`<${Handoff} session=${s} who=${who} close=${() => setHanding(false)} />`}
    ${erasing &&
    html`<${Ask} title="Erase this session?" word="erase" yes="Erase" close=${() => setErasing(false)} act=${async () => {
      await api('/v1/memory/sessions/' + s.id, { method: 'DELETE' });
      go('/ui/');
    }}><p>Its ${s.exchanges} ${s.exchanges === 1 ? 'exchange is' : 'exchanges are'} deleted from the record and from searches. This cannot be undone. The cost stays in the reports.</p><//>`}
  </header>`;
}

// cacheLost says that a turn paid again for what the one before had in a cache.
function cacheLost(entry, before) {
  if (!before) return false;
  const had = (before.exchange.usage || {}).cache_read || 0;
  const has = (entry.exchange.usage || {}).cache_read || 0;
  return had > 2000 && has < had / 2;
}

function TurnLink({ step, before, number, largest, here, asks }) {
  const { entry, ways } = step;
  const x = entry.exchange;
  const u = x.usage || {};
  const parts = [
    { name: 'cached', value: u.cache_read || 0, title: count(u.cache_read || 0) + ' from caches' },
    { name: 'written', value: u.cache_write || 0, title: count(u.cache_write || 0) + ' written to caches' },
    { name: 'fresh', value: u.input_uncached || 0, title: count(u.input_uncached || 0) + ' fresh' },
  ];
  const lost = cacheLost(entry, before);
  const moved = before && before.exchange.model_asked !== x.model_asked;
  return html`<div role="listitem"><button class=${here ? 'here' : ''} aria-current=${here ? 'true' : null} onClick=${() => setQuery({ turn: x.id })}>
    ${asks && html`<span class="asks" title=${clean(asks)}>${clean(asks)}</span>`}
    <span class="n">${number}</span>
    <${Bar} parts=${parts} total=${largest} title=${count(input(u)) + ' tokens in'} />
    <span class="num">${count(input(u))}</span>
    <span class="num cost" title=${costTitle(x.cost)}>${x.cost ? money(x.cost.usd) : ''}</span>
    ${x.outcome !== 'complete' || lost || moved || ways.length
      ? html`<small>${x.outcome !== 'complete' ? html`<${Outcome} of=${x.outcome} error=${x.error} /> ${x.outcome.replace('_', ' ')}` : ''}${lost ? html`<span class="warn">cache lost</span>` : ''}${moved ? html` <span>→ ${clean(x.model_asked)}</span>` : ''}${ways.length ? html` <span>branch ${ways.findIndex((w) => w.entry === entry) + 1} of ${ways.length}</span>` : ''}</small>`
      : ''}
  </button></div>`;
}

// ---- Conversation ------------------------------------------------------------------------------------------------

function Transcript({ path, items, toggle, numbers, chosen, at, who }) {
  const { results, calls } = useMemo(() => {
    const results = new Map();
    const calls = new Map(); // where each stands: in an answer, or else in the first message that has it
    for (const { entry: t, lead } of path) {
      for (const s of said(t, lead)) {
        for (const [i, p] of s.message.parts.entries()) {
          if (p.kind === 'result' && p.call_id) results.set(p.call_id, { part: p, at: t.exchange.started, pictures: picturesBehind(s, i) });
          if (p.kind === 'call' && p.call_id && !calls.has(p.call_id)) calls.set(p.call_id, s.exchange + '/' + s.at);
        }
      }
      for (const m of (t.turn && t.turn.answer) || []) for (const p of m.parts) if (p.kind === 'call' && p.call_id) calls.set(p.call_id, 'answer');
    }
    return { results, calls };
  }, [path]);
  if (!path.length) return html`<${Empty} title="No turns yet"><p>They appear here as they happen.</p><//>`;
  const draw = ({ step, fold }, i) => {
    if (fold) return html`<${Fold} fold=${fold} toggle=${toggle} key=${'fold ' + fold.id} />`;
    const x = step.entry.exchange;
    // The turn that is marked stays so where it stands in front of the fork.
    return html`<div key=${x.id + x.outcome + (step.entry.turn ? 1 : 0)}>
      ${step.ways.length > 0 && html`<${Fork} ways=${step.ways} here=${step.entry} choose=${(way) => setQuery({ branch: way.entry.exchange.id, turn: at < i ? chosen : '' }, false)} />`}
      <${Turn} entry=${step.entry} lead=${step.lead} number=${numbers.get(x.id)} results=${results} calls=${calls} marked=${x.id === chosen} who=${who} />
    </div>`;
  };
  return html`<div class="transcript"><${Long} items=${items} tall=${160} wanted=${at} draw=${draw} /></div>`;
}

// said are the messages that a turn begins with, and where they stand in the request of an exchange: {message, exchange, at}.
const said = ({ exchange, turn }, lead) => lead.concat(((turn && turn.messages) || []).map((message, i) => ({ message, exchange: exchange.id, at: (turn.known || 0) + i })));

// picturesBehind are what stands right behind the result of a call: it came with it.
function picturesBehind({ message, exchange, at }, result) {
  const others = message.parts.findIndex((p, i) => i > result && p.kind !== 'media');
  return message.parts.slice(result + 1, others < 0 ? undefined : others).map((part, i) => html`<${Media} part=${part} exchange=${exchange} within=${'messages/' + at} place=${result + 1 + i} />`);
}

const someWays = 8; // of a fork that are shown at once

// Fork shows the branches that a conversation has from here on.
function Fork({ ways, here, choose }) {
  const [all, set] = useState(false);
  const shown = all ? ways : ways.filter((way, i) => i < someWays || way.entry === here);
  return html`<nav class="fork" aria-label="Branches">
    <p>${ways.length} branches from here</p>
    <ul>${shown.map((way) => html`<li key=${way.entry.exchange.id}><button aria-current=${way.entry === here ? 'true' : null} onClick=${() => choose(way)}>
      <span>${asked(way)}</span> <small>${way.turns} ${way.turns === 1 ? 'turn' : 'turns'} · ${clean(way.entry.exchange.model_asked)} · ${clock(way.entry.exchange.started)}</small>
    </button></li>`)}</ul>
    ${shown.length < ways.length && html`<button class="quiet" onClick=${() => set(true)}>show ${ways.length - shown.length} more</button>`}
  </nav>`;
}

// asked is the beginning of the first words of a person in a branch, or else of what a tool returned in it.
function asked(way) {
  const texts = (messages, kind) => messages.filter(({ message }) => message.role !== 'assistant' && message.role !== 'system').flatMap(({ message }) => message.parts.filter((p) => p.text && p.kind === kind && !woven.test(p.text)).map((p) => p.text.trim()));
  const [own, all] = [said(way.entry, []), said(way.entry, way.lead)];
  const first = texts(own, 'text')[0] || texts(all, 'text').pop() || texts(own, 'result')[0];
  return first ? clean(first.slice(0, 120)) : 'no words of its own';
}

function Turn({ entry, lead, number, results, calls, marked, who }) {
  const x = entry.exchange;
  const turn = entry.turn;
  const [remarks, note] = useRemark(x, who, number);
  return html`<section class=${'turn' + (marked ? ' marked' : '')} id=${'turn-' + x.id} aria-label=${'turn ' + number}>
    <header>
      <span class="n">${number}</span> <${Outcome} of=${x.outcome} error=${x.error} />
      <${Model} name=${x.model_served || x.model_asked} />${x.model_served && x.provider && x.format !== x.surface ? html`<small>${x.surface} → ${x.provider}</small>` : ''}
      ${remarks}
      <span class="grow"></span>
      <small title=${costTitle(x.cost)}>${x.cost ? money(x.cost.usd) : ''}</small>
      ${x.imported ? html`<small title=${'imported ' + full(x.imported)}>imported</small>` : html`<small title="until the first byte, in all">${lasted(between(x.started, x.first_byte))} / ${lasted(between(x.started, x.last_byte))}</small>`}
      <time title=${full(x.started)}>${clock(x.started)}</time>
      <${Copy} text=${() => location.origin + '/ui/sessions/' + x.session + '?turn=' + x.id} label="link" />
    </header>
    ${turn && turn.error && html`<p class="error">${turn.error}</p>`}
    ${said(entry, lead).map((s) => html`<${Message} ...${s} results=${results} calls=${calls} />`)}
    ${((turn && turn.answer) || []).map((m) => html`<${Message} message=${m} exchange=${x.id} answer=${true} results=${results} ended=${x.last_byte} calls=${calls} />`)}
    ${!turn && x.outcome === 'open' && html`<p class="working"><i class="dot"></i> answering…</p>`}
    ${x.error && html`<p class="error">${clean(x.error.message)}</p>`}
    ${note}
  </section>`;
}

const roles = { user: 'user', assistant: 'assistant', system: 'system', tool: 'tool' };

function Message({ message: m, exchange, at, answer, results, ended, calls }) {
  // Results stand with their calls, and calls with the answer that made them: clients send some back with other arguments.
  const parts = [];
  const here = answer ? 'answer' : exchange + '/' + at;
  let elsewhere = false;
  for (const [place, part] of m.parts.entries()) {
    elsewhere = part.kind === 'media' ? elsewhere : calls.has(part.call_id) && (part.kind === 'result' || (part.kind === 'call' && calls.get(part.call_id) !== here));
    if (!elsewhere) parts.push(part.kind === 'media' ? html`<${Media} part=${part} exchange=${exchange} within=${answer ? 'answer' : 'messages/' + at} place=${place} />` : html`<${Part} part=${part} role=${m.role} results=${results} ended=${ended} />`);
  }
  if (!parts.length) return null;
  return html`<div class=${'message ' + (answer ? 'assistant' : m.role)}>
    <span class="role">${roles[m.role] || m.role}</span>
    <div class="said">${parts}</div>
  </div>`;
}

function Part({ part: p, role, results, ended }) {
  switch (p.kind) {
    case 'call':
      return html`<${Call} part=${p} result=${results && results.get(p.call_id)} ended=${ended} />`;
    case 'result':
      return html`<details class=${'tool' + (p.failed ? ' failed' : '')}><summary><b>${clean(p.name) || 'result'}</b> <small>${p.failed ? 'failed' : ''} ${bytes((p.text || '').length)}</small></summary><${Plain} text=${p.text || ''} label="result" /></details>`;
    case 'reasoning':
      return html`<details class="reasoning"><summary>reasoning <small>${bytes((p.text || '').length)}</small></summary><${Plain} text=${p.text || ''} lines=${40} label="reasoning" /></details>`;
    default:
      return role === 'assistant' ? html`<${Markdown} text=${p.text || ''} />` : html`<${Spoken} text=${p.text || ''} role=${role} />`;
  }
}

// woven are texts that clients put into a question.
const woven = /^\s*<(system-reminder|environment_context|user_instructions|permissions|INSTRUCTIONS)|^# AGENTS\.md/i;

// Spoken folds what clients weave into a question, and text for the model only.
function Spoken({ text, role }) {
  const asked = role !== 'system' && role !== 'developer' && !woven.test(text);
  if (asked) return html`<${Plain} text=${text} lines=${24} label="what was asked" />`;
  const name = (text.match(/^\s*<([\w-]+)/) || [null, clean(text.trim().split('\n')[0]).slice(0, 80)])[1];
  return html`<details class="reasoning"><summary><span>${clean(name)}</span> <small>${bytes(text.length)}, put in by the client</small></summary><${Plain} text=${text} lines=${40} label=${name} /></details>`;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function lines(text) {
  const n = text.split('\n').length;
  return n + (n === 1 ? ' line' : ' lines');
}

function Call({ part: p, result, ended }) {
  const subagent = useContext(Subagents).get(p.call_id);
  const args = useMemo(() => parsed(p.arguments), [p.arguments]);
  const took = result ? between(ended, result.at) : NaN;
  const failed = result && result.part.failed;
  const file = args && (args.file_path || args.path || args.filePath);
  const line = args ? args.command || args.cmd || args.pattern || args.query || args.url || args.description || file || '' : '';
  const edits = args && (Array.isArray(args.edits) ? args.edits : 'old_string' in args ? [args] : null);
  const patch = typeof p.arguments === 'string' && p.arguments.includes('*** Begin Patch') ? (args && args.input) || p.arguments : null;
  const out = (result && result.part.text) || '';
  return html`<details class=${'tool' + (failed ? ' failed' : '')} open=${Boolean(edits || failed || (result && result.pictures.length))}>
    <summary><b>${clean(p.name)}</b> <code>${clean(Array.isArray(line) ? line.join(' ') : line).slice(0, 160)}</code>
      <span class="grow"></span><small>${result ? html`${took >= 0 ? lasted(took) + ' · ' : ''}${failed ? html`<span class="bad">failed</span>` : lines(out)}` : 'no result'}</small></summary>
    ${edits
      ? edits.map((e) => html`<${Diff} before=${e.old_string || ''} after=${e.new_string || ''} />`)
      : patch
        ? html`<pre class="diff" tabindex="0" aria-label="patch">${clean(patch).split('\n').map((l) => html`<span class=${l[0] === '+' ? 'added' : l[0] === '-' ? 'removed' : ''}>${l}${'\n'}</span>`)}</pre>`
        : html`<${Plain} text=${laidOut(p.arguments || '')} lines=${10} label="arguments" />`}
    ${result && html`<div class="result">${(out || !result.pictures.length) && html`<${Plain} text=${out || '(nothing)'} lines=${8} label="result" />`}${result.pictures}</div>`}
  </details>
  ${subagent && html`<p class="worked"><${Link} to=${'/ui/sessions/' + subagent.id}>What the subagent did<//> <small>${subagent.exchanges} ${subagent.exchanges === 1 ? 'turn' : 'turns'} · ${cost(subagent.cost)}</small></p>`}`;
}

// ---- Context -----------------------------------------------------------------------------------------------------

function Context({ id, session, numbers }) {
  const { data: c, error } = useLoad('/v1/memory/exchanges/' + id + '/context');
  if (error) return html`<${Problem} error=${error} />`;
  if (!c) return html`<div aria-busy="true"></div>`;
  const all = c.parts.reduce((sum, p) => sum + p.bytes, 0) || 1;
  return html`<div class="context">
    <h2>What fills this request <small>${bytes(c.bytes)}, about ${count(Math.round(c.bytes / 4))} tokens</small></h2>
    <${Bar} parts=${c.parts.map((p) => ({ name: p.name, value: p.bytes, title: p.name + ' ' + percent(p.bytes / all) }))} total=${all} title="shares of the request" />
    <table class="parts"><tbody>${c.parts.map((p) => html`<tr><td><i class=${'swatch fill-' + p.name}></i>${partNames[p.name] || p.name}</td><td class="num">${p.count}</td><td class="num">${bytes(p.bytes)}</td><td class="num">${percent(p.bytes / all)}</td></tr>`)}</tbody></table>
    ${c.cache && html`<h2>What broke the cache</h2><p class="warn-box">${why(c.cache)}: <b>${count(c.cache.tokens)}</b> tokens that were in a cache after turn ${numbers.get(c.cache.previous) || ''} were paid for again${c.cache.usd ? html`, <b>${money(c.cache.usd)}</b> more than from the cache` : ''}.</p>`}
    ${c.previous &&
    html`<h2>Prefix</h2>${c.break
      ? html`<p>It differs from turn ${numbers.get(c.previous) || html`<code>${c.previous}</code>`}, the request before, in block ${c.break.index + 1} of its ${c.break.kind}. About <b>${count(c.break.tokens)}</b> tokens that had been sent before follow the difference${c.break.usd && !c.cache ? html`: <b>${money(c.break.usd)}</b> more than from a cache` : ''}.</p>
          <div class="pair"><figure><figcaption>before</figcaption><pre tabindex="0" aria-label="before">${clean(c.break.before) || '(nothing)'}</pre></figure><figure><figcaption>now</figcaption><pre tabindex="0" aria-label="now">${clean(c.break.now) || '(nothing)'}</pre></figure></div>`
      : html`<p>It goes on from all of turn ${numbers.get(c.previous) || ''}: ${bytes(c.common || 0)} in front are the same, so that a cache can have them.</p>`}`}
    <${Causes} of=${'exchange=' + id} title="What this request cost" />
    <${Causes} of=${'session=' + session} title="What the session cost" />
    <${Cost} path=${'/v1/memory/sessions/' + session + '/cache'} title="Caches in this session" />
    ${c.woven.length > 0 && html`<h2>Put in by the client</h2><${Shares} rows=${c.woven} total=${all} />`}
    ${c.files.length > 0 && html`<h2>Files read</h2><${Shares} rows=${c.files} total=${all} />`}
    ${c.tools.length > 0 && html`<h2>Tool definitions</h2><${Shares} rows=${c.tools} total=${all} />`}
  </div>`;
}

function Shares({ rows, total }) {
  return html`<table class="parts"><tbody>${rows.map((p) => html`<tr><td><code>${clean(p.name) || '–'}</code></td><td class="num">${p.count > 1 ? p.count + '×' : ''}</td><td class="num">${bytes(p.bytes)}</td><td class="num">${percent(p.bytes / total)}</td></tr>`)}</tbody></table>`;
}

// ---- Raw, Translated, Attempts -----------------------------------------------------------------------------------

function Raw({ id }) {
  const { data: x, error } = useLoad('/v1/memory/exchanges/' + id + '?include=raw_request,raw_response');
  if (error) return html`<${Problem} error=${error} />`;
  if (!x) return html`<div aria-busy="true"></div>`;
  return html`<div class="raw">
    ${(x.redactions || []).length > 0 && html`<p class="hint">Masked before it was stored: ${x.redactions.map((r) => r.name).join(', ')}</p>`}
    <${Body} name="request" text=${x.raw_request || ''} /><${Body} name="answer" text=${x.raw_response || ''} />
    ${x.response_bytes_unrecorded > 0 && html`<p class="hint">${bytes(x.response_bytes_unrecorded)} more passed than are recorded.</p>`}
  </div>`;
}

function Translated({ id }) {
  const { data: t, error } = useLoad('/v1/memory/exchanges/' + id + '/translation');
  if (error) return html`<${Problem} error=${error} />`;
  if (!t) return html`<div aria-busy="true"></div>`;
  if (t.same) return html`<${Empty} title="Not translated"><p>Client and provider speak the same format (${t.surface}): the bytes went through as they came. See them under Raw.</p><//>`;
  return html`<div class="translated">
    ${t.problem && html`<p class="error">${t.problem}</p>`}
    <p class="hint">Made again from the record, by today’s rules. ${t.dropped.length ? '' : 'Nothing was dropped. '}${t.emulated.length ? '' : 'Nothing was emulated.'}</p>
    ${(t.dropped.length > 0 || t.emulated.length > 0) && html`<ul class="notes">${t.dropped.map((n) => html`<li><span class="tag bad">dropped</span> <code>${n}</code></li>`)}${t.emulated.map((n) => html`<li><span class="tag warn">emulated</span> <code>${n}</code></li>`)}</ul>`}
    <div class="pair"><${Members} name=${'client asked (' + t.surface + ')'} text=${t.client} dropped=${t.dropped} emulated=${t.emulated} /><${Members} name=${'provider got (' + t.format + ')'} text=${t.provider} dropped=${[]} emulated=${[]} /></div>
  </div>`;
}

// Members shows a body member by member, with what became of each beside it.
function Members({ name, text, dropped, emulated }) {
  const body = useMemo(() => members(text), [text]);
  if (!body) return html`<${Body} name=${name} text=${text} />`;
  const sign = (member) => {
    const of = (list) => list.filter((n) => n === member || n.startsWith(member + '.') || n.startsWith(member + '['));
    return [...of(dropped).map((n) => ['dropped', n]), ...of(emulated).map((n) => ['emulated', n])];
  };
  return html`<figure class="members"><figcaption>${name} <${Copy} text=${text} /></figcaption>
    ${body.map(({ name: member, text: value, items }) => {
      const marks = sign(member);
      const shown = laidOut(value);
      const long = shown.length > 300;
      return html`<details open=${!long} class=${marks.length ? 'marked-' + marks[0][0] : ''}><summary><code>${clean(member)}</code> ${marks.map(([what, n]) => html`<span class=${'tag ' + (what === 'dropped' ? 'bad' : 'warn')} title=${n}>${what}</span>`)}<small>${items ? items + (items === 1 ? ' item, ' : ' items, ') : ''}${bytes(shown.length)}</small></summary><pre tabindex="0" aria-label=${member}>${clean(shown).slice(0, 60000)}</pre></details>`;
    })}
  </figure>`;
}

function Attempts({ x }) {
  const attempts = x.attempts && x.attempts.length ? x.attempts : x.provider && !x.imported ? [{ provider: x.provider, endpoint: '', model: x.model_sent, status: x.status, ms: between(x.started, x.first_byte), only: true }] : [];
  const total = between(x.started, x.last_byte);
  const first = between(x.started, x.first_byte);
  return html`<div class="attempts">
    <h2>Attempts</h2>
    ${attempts.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Attempts"><table><thead><tr><th>#</th><th>provider</th><th>endpoint</th><th>model</th><th class="num">status</th><th>why not enough</th><th class="num">took</th></tr></thead><tbody>${attempts.map((a, i) => html`<tr><td>${i + 1}</td><td>${a.provider}</td><td><code>${a.endpoint || '–'}</code></td><td><${Model} name=${a.model} /></td><td class="num">${a.status || '–'}</td><td>${a.failure ? html`<span class="bad">${a.failure}</span>` : '–'}</td><td class="num">${lasted(a.ms)}</td></tr>`)}</tbody></table></div>`
      : html`<p>${x.imported ? 'Not recorded: imported from the history of its client.' : 'No provider was asked.'}</p>`}
    ${!x.imported && html`<h2>Timing</h2>
    <${Bar} parts=${[{ name: 'wait', value: first || 0, title: 'until the first byte' }, { name: 'cached', value: Math.max(total - first, 0) || 0, title: 'answering' }]} total=${total || 1} title="timing" />
    <dl class="facts">
      <div><dt>first byte</dt><dd>${lasted(first)}</dd></div><div><dt>answering</dt><dd>${lasted(total - first)}</dd></div><div><dt>in all</dt><dd>${lasted(total)}</dd></div>
      <div><dt>tokens a second</dt><dd>${total > first && x.usage && x.usage.output ? Math.round((x.usage.output / (total - first)) * 1000) : '–'}</dd></div>
      <div><dt>finish</dt><dd>${x.finish_reason || '–'}</dd></div><div><dt>status</dt><dd>${x.status || '–'}</dd></div>
    </dl>`}
    <h2>Cost</h2>
    <dl class="facts">${x.cost
      ? html`<div><dt>cost</dt><dd>$${x.cost.usd}${x.cost.estimated ? ' (estimate)' : ''}</dd></div><div><dt>price</dt><dd><code>${x.cost.price}</code></dd></div><div><dt>caches saved</dt><dd>${money(x.cost.saved_usd || 0)}</dd></div>${x.cost.notional ? html`<div><dt>paid by</dt><dd>the caller’s own credential</dd></div>` : ''}`
      : html`<div><dt>cost</dt><dd>no known price</dd></div>`}
      ${['input_uncached', 'cache_read', 'cache_write', 'output', 'reasoning'].map((k) => html`<div><dt>${k.replace('_', ' ')}</dt><dd>${((x.usage || {})[k] || 0).toLocaleString('en-US')}</dd></div>`)}</dl>
    <h2>Identity</h2>
    <dl class="facts wide"><div><dt>exchange</dt><dd><code>${x.id}</code> <${Copy} text=${x.id} /></dd></div><div><dt>provider’s request id</dt><dd><code>${clean(x.provider_request_id) || '–'}</code></dd></div><div><dt>key</dt><dd><code>${x.key_id || '–'}</code></dd></div><div><dt>asked, sent, served</dt><dd>${[x.model_asked, x.model_sent, x.model_served].map((m) => clean(m) || '–').join(' → ')}</dd></div></dl>
  </div>`;
}
