import { useEffect, useState } from 'preact/hooks';
import { api, cached, cost, costTitle, count, Empty, html, input, lasted, money, percent, Problem, project, save, setQuery, useAddress, useLoad, clean } from './base.js';
import { Cost } from './cache.js';

export const spans = [['1d', 'a day', 1], ['7d', '7 days', 7], ['30d', '30 days', 30], ['90d', '90 days', 90]];
const splits = ['model', 'key', 'project', 'client', 'provider'];
const colors = 7;

// Usage says what was used and what it cost.
export function Usage() {
  const { query } = useAddress();
  const span = query.get('since') || '30d';
  const split = splits.includes(query.get('split')) ? query.get('split') : 'model';
  const days = (spans.find(([n]) => n === span) || spans[2])[2];
  const step = days === 1 ? 'hour' : 'day';
  const since = new Date(Date.now() - (days - (step === 'day' ? 1 : 0)) * 864e5);
  if (step === 'day') since.setUTCHours(0, 0, 0, 0);
  else since.setUTCMinutes(0, 0, 0);
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const often = setInterval(() => document.visibilityState === 'visible' && setTick((n) => n + 1), 30000);
    return () => clearInterval(often);
  }, []);
  const from = since.toISOString().replace(/\.\d+Z$/, 'Z');
  const { data: over, error } = useLoad('/v1/memory/usage?by=' + step + ',' + split + '&since=' + from, tick);
  const { data: by } = useLoad('/v1/memory/usage?by=' + split + '&since=' + from, tick);
  if (error) return html`<${Problem} error=${error} />`;
  const total = over && over.total;
  const csv = async () => {
    const u = await api('/v1/memory/usage?by=day,key,project,client,model&since=' + from);
    const cell = (v) => {
      const text = String(v === undefined ? '' : v);
      const inert = /^[=+\-@\t\r]/.test(text) && typeof v === 'string' ? "'" + text : text;
      return /[",\n]/.test(inert) ? '"' + inert.replace(/"/g, '""') + '"' : inert;
    };
    const head = ['day', 'key', 'label', 'project', 'client', 'model', 'requests', 'errors', 'input_uncached', 'cache_read', 'cache_write', 'output', 'usd', 'notional_usd', 'saved_usd', 'unpriced'];
    const rows = u.data.map((l) => [l.day, l.key, l.label || '', l.project, l.client, l.model, l.requests, l.errors || 0, l.usage.input_uncached || 0, l.usage.cache_read || 0, l.usage.cache_write || 0, l.usage.output || 0, l.cost.usd, l.cost.notional_usd || 0, l.cost.saved_usd || 0, l.cost.unpriced || 0]);
    const blob = new Blob([[head, ...rows].map((r) => r.map(cell).join(',')).join('\r\n') + '\r\n'], { type: 'text/csv' });
    save(blob, 'usage.csv');
  };
  const lines = (answer) => (!answer ? [] : split === 'key' ? byLabel(answer.data) : answer.data);
  const ranked = lines(by);
  const rank = new Map(ranked.map((l, i) => [l[split] || '', Math.min(i, colors - 1)]));
  return html`<section class="usage" aria-busy=${!over}>
    <div class="bar-top"><h1>Usage</h1>
      <div class="filters">
        <label>span<select value=${span} onChange=${(e) => setQuery({ since: e.target.value })}>${spans.map(([n, name]) => html`<option value=${n}>${name}</option>`)}</select></label>
        <label>split by<select value=${split} onChange=${(e) => setQuery({ split: e.target.value })}>${splits.map((s) => html`<option value=${s}>${s}</option>`)}</select></label>
        <button onClick=${csv}>CSV</button>
      </div></div>
    ${total && !total.requests && html`<${Empty} title="Nothing was used"><p>In this span nothing went through.</p><//>`}
    ${total && total.requests > 0 &&
    html`<dl class="facts big">
        <div title=${costTitle(total.cost)}><dt>cost</dt><dd>${cost(total.cost)}</dd></div>
        <div><dt>caches saved</dt><dd>${money(total.cost.saved_usd || 0)}</dd></div>
        <div><dt>tokens in</dt><dd>${count(input(total.usage))} <small>${percent(total.cache_share)} cached</small></dd></div>
        <div><dt>tokens out</dt><dd>${count(total.usage.output || 0)}</dd></div>
        <div><dt>requests</dt><dd>${count(total.requests)} <small>${total.errors ? count(total.errors) + ' failed' : ''}</small></dd></div>
        <div><dt>first byte</dt><dd>${total.first_byte_p50 ? lasted(total.first_byte_p50) : '–'} <small>${total.first_byte_p95 ? 'p95 ' + lasted(total.first_byte_p95) : ''}</small></dd></div>
      </dl>
      <${Chart} lines=${lines(over)} step=${step} split=${split} since=${since} days=${days} rank=${rank} />
      ${total.cost.unpriced > 0 && html`<p class="hint">${total.cost.unpriced} ${total.cost.unpriced === 1 ? 'request has' : 'requests have'} no known price; add one under <code>prices</code> in <code>models_file</code>.</p>`}
      ${total.cost.notional_usd > 0 && html`<p class="hint">${money(total.cost.notional_usd)} of it is the list price of what was imported, or paid with callers’ own credentials.</p>`}
      <div class="scroll" tabindex="0" role="region" aria-label=${'By ' + split}><table><thead><tr><th>${split}</th><th class="num">cost</th><th class="num">share</th><th class="num">saved</th><th class="num">requests</th><th class="num">failed</th><th class="num">in</th><th class="num">cached</th><th class="num">out</th><th class="num">p50</th><th class="num">p95</th></tr></thead>
        <tbody>${ranked.map((l) => html`<tr><td title=${l[split] || ''}><i class=${'swatch c' + rank.get(l[split] || '')}></i>${clean(split === 'project' ? project(l[split]) : (split === 'key' && l.label) || l[split]) || '–'}</td><td class="num" title=${costTitle(l.cost)}>${cost(l.cost)}</td><td class="num">${percent(sum(l) / (sum(total) || 1))}</td><td class="num">${money(l.cost.saved_usd || 0)}</td><td class="num">${count(l.requests)}</td><td class="num">${l.errors || ''}</td><td class="num">${count(input(l.usage))}</td><td class="num">${percent(l.cache_share)}</td><td class="num">${count(l.usage.output || 0)}</td><td class="num">${l.first_byte_p50 ? lasted(l.first_byte_p50) : ''}</td><td class="num">${l.first_byte_p95 ? lasted(l.first_byte_p95) : ''}</td></tr>`)}</tbody></table></div>`}
    <${Cost} path=${'/v1/memory/cache?since=' + from} title="What broken caches cost" />
  </section>`;
}

const add = (a = {}, b = {}) => Object.fromEntries(Object.keys({ ...a, ...b }).map((name) => [name, (a[name] || 0) + (b[name] || 0)]));

// byLabel puts lines of keys with one label together, such as those of wrapped agents; the costliest come first.
export function byLabel(lines) {
  const all = new Map();
  for (const l of lines) {
    const key = l.label || l.key || '';
    const at = (l.day || l.hour || '') + ' ' + key;
    const one = all.get(at);
    const usage = one && add(one.usage, l.usage);
    all.set(at, one ? { ...one, requests: one.requests + l.requests, errors: (one.errors || 0) + (l.errors || 0), usage, cost: add(one.cost, l.cost), cache_share: cached(usage), first_byte_p50: 0, first_byte_p95: 0 } : { ...l, key });
  }
  return [...all.values()].sort((a, b) => sum(b) - sum(a));
}

export const sum = (l) => (l.cost.usd || 0) + (l.cost.notional_usd || 0);

// Chart stacks costs, or tokens where nothing has a price.
function Chart({ lines, step, split, since, days, rank }) {
  const priced = lines.some((l) => sum(l) > 0);
  const value = (l) => (priced ? sum(l) : input(l.usage) + (l.usage.output || 0));
  const write = (v) => (priced ? money(v) : count(v));
  const steps = step === 'hour' ? 25 : days;
  const names = Array.from({ length: steps }, (_, i) => {
    const at = new Date(since.getTime() + i * (step === 'hour' ? 36e5 : 864e5));
    return step === 'hour' ? at.toISOString().slice(0, 13) : at.toISOString().slice(0, 10);
  });
  const at = new Map(names.map((n, i) => [n, i]));
  const columns = names.map(() => []);
  for (const l of lines) {
    const i = at.get(step === 'hour' ? (l.hour || '').slice(0, 13) : l.day);
    if (i !== undefined) columns[i].push(l);
  }
  const sums = columns.map((c) => c.reduce((s, l) => s + value(l), 0));
  const top = nice(Math.max(...sums, priced ? 1e-6 : 1));
  const wide = 1000 / steps;
  return html`<figure class="chart"><figcaption>${priced ? 'cost' : 'tokens'} per ${step}, UTC</figcaption>
    <div class="plot"><div class="scale" aria-hidden="true"><span>${write(top)}</span><span>${write(top / 2)}</span><span>${write(0)}</span></div>
    <svg viewBox="0 0 1000 200" preserveAspectRatio="none" role="img" aria-label=${(priced ? 'cost ' : 'tokens ') + 'per ' + step + ' by ' + split}>
      <line x1="0" x2="1000" y1="0.5" y2="0.5" class="grid" /><line x1="0" x2="1000" y1="100" y2="100" class="grid" /><line x1="0" x2="1000" y1="199.5" y2="199.5" class="grid" />
      ${columns.map((c, i) => {
        let y = 200;
        return [...c]
          .sort((a, b) => rank.get(a[split] || '') - rank.get(b[split] || ''))
          .map((l) => {
            const tall = (value(l) / top) * 200;
            y -= tall;
            return html`<rect class=${'c' + (rank.get(l[split] || '') || 0)} x=${i * wide + wide * 0.12} width=${wide * 0.76} y=${y} height=${tall}><title>${names[i].replace('T', ' ')} · ${l[split] || '–'}: ${write(value(l))}</title></rect>`;
          });
      })}
    </svg></div>
    <div class="axis" aria-hidden="true"><span>${names[0].slice(5).replace('T', ' ')}</span><span>${names[Math.floor(steps / 2)].slice(5).replace('T', ' ')}</span><span>${names[steps - 1].slice(5).replace('T', ' ')}</span></div>
  </figure>`;
}

// nice is the next round number.
function nice(v) {
  const unit = 10 ** Math.floor(Math.log10(v));
  for (const m of [1, 2, 2.5, 5, 10]) if (v <= m * unit) return m * unit;
  return v;
}
