// What broke prompt caches, and what that cost.

import { clean, count, html, Link, lasted, money, project, useLoad } from './base.js';

// why is the reason of a break in words.
export function why(b) {
  switch (b.reason) {
    case 'model':
      return 'the model changed' + (b.now ? ' from ' + clean(b.before) + ' to ' + clean(b.now) : '');
    case 'provider':
      return 'the provider changed' + (b.now ? ' from ' + clean(b.before) + ' to ' + clean(b.now) : '');
    case 'idle':
      return b.idle_ms ? 'idle ' + lasted(b.idle_ms) + ' > ' + lasted(b.kept_ms) : 'idle for longer than the provider keeps a cache';
    case 'tools':
      return 'other tools were offered' + (b.names && b.names.length ? ': ' + b.names.map(clean).join(', ') : '');
    case 'reordered':
      return 'the same tools came in another order';
    case 'block':
      return b.kind ? 'block ' + ((b.index || 0) + 1) + ' of its ' + b.kind + ' differs' : 'a block in front differs';
    case 'evicted':
      return 'nothing differs; the provider had not kept it';
    default:
      return 'unknown';
  }
}

// advice is what would have saved it.
const advice = {
  model: 'Change models between sessions, not within one.',
  provider: 'Keep a session on one provider: fallbacks begin without a cache.',
  idle: 'Ask on before the cache ends, or let the client keep it for an hour.',
  tools: 'Offer the same tools from the first request on.',
  reordered: 'Offer tools in a fixed order.',
  block: 'Put what changes, such as times and notes, behind what stays.',
};

const recent = 864e5; // milliseconds since the last answer: who goes on with an older session?

// Forecast says what the next prompt of a session costs if its cache is lost.
export function Forecast({ session, turns }) {
  const { data: f } = useLoad('/v1/memory/sessions/' + session + '/forecast', turns);
  if (!f || !f.text || f.idle_ms > recent) return null;
  return html`<p class="warn-box" role="note">If you go on: ${clean(f.text)}</p>`;
}

// Cost is a report on caches. It says nothing where nothing was lost.
export function Cost({ path, title }) {
  const { data: r } = useLoad(path);
  if (!r || !r.breaks.length) return null;
  const best = r.reasons.filter((s) => advice[s.reason]).slice(0, 3);
  return html`<section class="cache-cost"><h2>${title}</h2>
    <p class="warn-box">Broken prompt caches cost <b>${r.usd ? money(r.usd) : 'an unknown price'}</b>: ${count(r.tokens)} tokens were paid for again in ${r.breaks.length} of ${r.exchanges} requests${r.complete ? '' : ' (of the newest ones)'}.</p>
    ${best.length > 0 && html`<p>What would have saved most:</p><ol class="advice">${best.map((s) => html`<li><b>${s.usd ? money(s.usd) : count(s.tokens) + ' tokens'}</b> ${advice[s.reason]} <small>${why(s)}, ${s.count} ${s.count === 1 ? 'time' : 'times'}</small></li>`)}</ol>`}
    ${(r.projects || []).length > 1 && html`<p>By project: ${r.projects.slice(0, 4).map((p, i) => html`${i ? '; ' : ''}<b>${clean(project(p.project))}</b> ${p.usd ? money(p.usd) : count(p.tokens) + ' tokens'}${why(p) === 'unknown' ? '' : ' (' + why(p) + ')'}`)}.</p>`}
    <details><summary>Each of them</summary><div class="scroll" tabindex="0" role="region" aria-label="Broken caches"><table><tbody>${r.breaks.slice(0, 20).map((b) => html`<tr><td><${Link} to=${'/ui/sessions/' + b.session + '?turn=' + b.exchange + '&tab=context'}>${b.started.slice(0, 16).replace('T', ' ')}<//></td><td>${why(b)}</td><td class="num">${count(b.tokens)}</td><td class="num">${b.usd ? money(b.usd) : '–'}</td></tr>`)}</tbody></table></div></details>
  </section>`;
}
