import { useEffect, useRef, useState } from 'preact/hooks';
import { api, between, clean, clock, cost, costTitle, count, Empty, html, input, lasted, Link, Model, money, Outcome, percent, cached, Problem, setQuery, useAddress, useKeys } from './base.js';
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

  const drawn = useRef(new WeakMap()); // a row that is as it was needs no drawing
  const draw = (row) => {
    if (row.outcome !== 'open' && drawn.current.has(row)) return drawn.current.get(row);
    const element = html`<${Row} row=${row} key=${row.id} />`;
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
    ${!rows.length && problem && html`<${Problem} error=${problem} />`}
    ${!shown.length && !problem && html`<${Empty} title=${rows.length ? 'Nothing matches the filter' : 'No exchanges yet'}><p>${rows.length ? 'Filters are key:, model:, client:, project:, outcome:, or words of a name.' : 'Exchanges appear here as soon as they begin.'}</p><//>`}
    <ol class="list">${shown.map(draw)}</ol>
  </section>`;
}

function Row({ row }) {
  const x = row.info || {};
  const to = row.session ? '/ui/sessions/' + row.session + '?turn=' + row.id : '/ui/live';
  const took = row.outcome === 'open' ? between(row.time, new Date()) : between(x.started, x.last_byte);
  return html`<li><${Link} class="row" to=${to}>
    <span class="when">${clock(row.time || x.started)}</span>
    <${Outcome} of=${row.outcome === 'open' && x.outcome ? x.outcome : row.outcome} error=${x.error} />
    <${Model} name=${x.model_asked} />
    <span class="name dim">${[x.surface, x.provider && x.format !== x.surface && '→ ' + x.provider, x.auxiliary, x.repeats && 'repeats ' + clean(x.repeats), x.cache && 'cache lost' + (x.cache.usd ? ' (' + money(x.cache.usd) + ')' : '') + ': ' + why(x.cache), x.error && clean(x.error.message), x.asked && clean(x.asked)].filter(Boolean).join(' ')}</span>
    <span class="num">${lasted(took)}</span>
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
      const agent = ((x.header || []).find((h) => /^user-agent$/i.test(h.name)) || {}).value || '';
      const fields = { key: x.key_id, model: (x.model_asked || '') + ' ' + (x.model_sent || ''), client: agent, project: x.project, outcome: row.outcome === 'open' ? x.outcome || 'open' : row.outcome, provider: x.provider, surface: x.surface };
      const has = (text) => String(text || '').toLowerCase().includes(value);
      return name ? has(fields[name]) : Object.values(fields).some(has);
    });
  };
}
