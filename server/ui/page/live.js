import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, between, clean, clock, cost, costTitle, count, Empty, html, input, lasted, Link, Model, money, Outcome, percent, cached, Problem, project, setQuery, useAddress, useKeys, useLoad } from './base.js';
import { why } from './cache.js';
import { useTail, useTailState } from './tail.js';

const most = 500; // rows that are kept
const together = 8; // details that are asked for at a time
const pace = 250; // milliseconds between two drawings

// Live shows exchanges as they begin and end.
export function Live() {
  const { query } = useAddress();
  const filter = query.get('filter') || '';
  const [rows, setRows] = useState([]);
  const [paused, setPaused] = useState(false);
  const [problem, setProblem] = useState(null);
  const state = useTailState();
  const held = useRef({ rows: new Map(), paused: false, due: false });
  held.current.paused = paused;

  useEffect(() => {
    const all = held.current.rows;
    const wanted = [];
    let asking = 0;
    let drawn = -pace;
    let open = true;
    const show = () => {
      if (held.current.due || held.current.paused) return;
      held.current.due = true;
      const draw = () => {
        held.current.due = false;
        drawn = performance.now();
        if (open && !held.current.paused) setRows([...all.values()].reverse());
      };
      setTimeout(draw, Math.max(drawn + pace - performance.now(), 0));
    };
    const ask = () => {
      while (asking < together && wanted.length) {
        const id = wanted.pop();
        asking++;
        api('/v1/memory/exchanges/' + id + '?include=asked,cache')
          .then((info) => all.has(id) && all.set(id, { ...all.get(id), info }), () => {})
          .finally(() => {
            asking--;
            show();
            ask();
          });
      }
    };
    const note = (id, change) => {
      all.set(id, { id, ...(all.get(id) || {}), ...change });
      while (all.size > most) all.delete(all.keys().next().value);
      if (wanted.length > 50) wanted.shift(); // more than anybody reads: the newest are looked up
      wanted.push(id);
      ask();
      show();
    };
    const list = () =>
      api('/v1/memory/exchanges?limit=50').then(
        (newest) => {
          for (const info of newest.data.reverse()) {
            all.set(info.id, { id: info.id, session: info.session, outcome: info.outcome, time: info.started, info });
            wanted.push(info.id); // for what was asked
          }
          ask();
          setProblem(null);
          show();
        },
        setProblem,
      );
    held.current.note = note;
    held.current.list = list;
    list();
    return () => {
      open = false;
    };
  }, []);
  useTail((kind, event) => {
    if (kind === 'missed') held.current.list();
    if (kind === 'exchange.created') held.current.note(event.exchange, { session: event.session, outcome: 'open', time: event.time });
    if (kind === 'exchange.completed') held.current.note(event.exchange, { session: event.session, outcome: event.outcome, ended: event.time });
  });
  useEffect(() => {
    if (!paused) setRows([...held.current.rows.values()].reverse());
  }, [paused]);
  useKeys({ p: () => setPaused((p) => !p) });

  const known = useRef(new Map()); // labels of keys
  const unknown = new Set(rows.map((row) => (row.info || {}).key_id).filter((id) => id && !known.current.has(id))).size;
  const { data: keys } = useLoad('/v1/memory/usage?by=key&since=' + new Date().toISOString().slice(0, 8) + '01T00:00:00Z', unknown);
  const labels = useMemo(() => (known.current = new Map(((keys && keys.data) || []).map((l) => [l.key, l.label]))), [keys]);
  const drawn = useRef(new WeakMap()); // a row that is as it was needs no drawing
  useMemo(() => (drawn.current = new WeakMap()), [labels]);
  const draw = (row) => {
    if (row.outcome !== 'open' && drawn.current.has(row)) return drawn.current.get(row);
    const element = html`<${Row} row=${row} label=${labels.get((row.info || {}).key_id)} key=${row.id} />`;
    drawn.current.set(row, element);
    return element;
  };
  const fits = matcher(filter);
  const shown = rows.filter(fits);
  return html`<section class="live">
    <div class="bar-top">
      <h1>Live <span class=${'state ' + state}>${state === 'live' ? (paused ? 'paused' : 'on') : state === 'lost' ? 'away' : state}</span></h1>
      <div class="filters">
        <label class="wide">filter<input value=${filter} placeholder="outcome:error model:gpt key:key_… text" onInput=${(e) => setQuery({ filter: e.target.value })} /></label>
        <button onClick=${() => setPaused(!paused)} aria-pressed=${paused}>${paused ? 'Resume' : 'Pause'}</button>
      </div>
    </div>
    <${Chips} rows=${rows} filter=${filter} />
    ${!rows.length && problem && html`<${Problem} error=${problem} />`}
    ${!shown.length && !problem && html`<${Empty} title=${rows.length ? 'Nothing matches the filter' : 'No exchanges yet'}><p>${rows.length ? 'Filters are key:, model:, client:, project:, outcome:, or words of a name.' : 'Exchanges appear here as soon as they begin.'}</p><//>`}
    <ol class="list">${shown.map(draw)}</ol>
  </section>`;
}

// conversing are the surfaces on which a request without new words of a person goes on with what tools gave.
const conversing = new Set(['messages', 'chat', 'responses', 'gemini']);

// agentOf is the client's name, as its User-Agent begins.
const agentOf = (x) => (((x.header || []).find((h) => /^user-agent$/i.test(h.name)) || {}).value || '').split(/[/ ]/)[0];

const mostChips = 4; // of a kind

// Chips filter by what the rows have.
function Chips({ rows, filter }) {
  const terms = filter.split(/\s+/).filter(Boolean);
  const of = (name, value) => {
    const counts = new Map();
    for (const row of rows) {
      const v = value(row);
      if (v && !/\s/.test(v)) counts.set(v, (counts.get(v) || 0) + 1);
    }
    return [...counts].sort((a, b) => b[1] - a[1]).slice(0, mostChips).map(([v]) => [name + ':' + v, v]);
  };
  const kinds = [of('project', (r) => project((r.info || {}).project)), of('client', (r) => agentOf(r.info || {})), of('outcome', (r) => (r.outcome === 'complete' || r.outcome === 'open' ? '' : r.outcome))];
  const chips = kinds.flatMap((kind) => (kind.length > 1 || (kind[0] && kind[0][0].startsWith('outcome:')) ? kind : []));
  const toggle = (term) => setQuery({ filter: (terms.includes(term) ? terms.filter((t) => t !== term) : terms.concat(term)).join(' ') });
  return chips.length > 0 && html`<p class="chips">${chips.map(([term, name]) => html`<button class="quiet" aria-pressed=${terms.includes(term)} title=${term} onClick=${() => toggle(term)}>${clean(name)}</button>`)}</p>`;
}

function Row({ row, label }) {
  const x = row.info || {};
  const to = row.session ? '/ui/sessions/' + row.session + '?turn=' + row.id : '/ui/live';
  const took = row.outcome === 'open' ? between(row.time, new Date()) : between(x.started, x.last_byte);
  return html`<li><${Link} class="row" to=${to}>
    <span class="when">${clock(row.time || x.started)}</span>
    <${Outcome} of=${row.outcome === 'open' && x.outcome ? x.outcome : row.outcome} error=${x.error} />
    <span class="name"><b>${clean(x.asked || x.auxiliary || (conversing.has(x.surface) ? 'next step' : x.surface) || '…')}</b>
      <small><${Model} name=${x.model_asked} />${[x.project && project(x.project), agentOf(x), label, x.surface && x.surface + (x.provider && x.format !== x.surface ? ' → ' + x.provider : ''), x.auxiliary, x.imported && 'imported'].filter(Boolean).map((t) => ' · ' + clean(t))}</small>
      ${x.repeats && html`<small class="warn">repeats ${clean(x.repeats)}</small>`}
      ${x.burst && html`<small class="warn">spent ${clean(x.burst)}</small>`}
      ${x.cache && html`<small class="warn">cache lost${x.cache.usd ? ' (' + money(x.cache.usd) + ')' : ''}: ${why(x.cache)}</small>`}
      ${x.error && html`<small class="bad">${clean(x.error.message)}</small>`}
    </span>
    <span class="num">${x.imported ? '' : lasted(took)}</span>
    <span class="num tokens">${x.usage ? html`${count(input(x.usage))} <small>${percent(cached(x.usage))}</small> → ${count(x.usage.output || 0)}` : ''}</span>
    <span class="num cost" title=${costTitle(x.cost)}>${x.cost ? cost({ ...x.cost, estimated: x.cost.estimated ? 1 : 0 }) : ''}</span>
  <//></li>`;
}

function matcher(filter) {
  const terms = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (row) => {
    const x = row.info || {};
    return terms.every((term) => {
      const [, name, value] = term.match(/^(\w+):(.*)$/) || [null, '', term];
      const fields = { key: x.key_id, model: (x.model_asked || '') + ' ' + (x.model_sent || ''), client: agentOf(x), project: x.project, outcome: row.outcome === 'open' ? x.outcome || 'open' : row.outcome, provider: x.provider, surface: x.surface };
      const has = (text) => String(text || '').toLowerCase().includes(value);
      return name ? has(fields[name]) : Object.values(fields).some(has);
    });
  };
}
