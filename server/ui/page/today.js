// A day in one look: what was done today and yesterday, what is left open, what failed, and what it cost.

import { useMemo } from 'preact/hooks';
import { ago, clean, cost, costTitle, Empty, full, html, Link, money, Problem, project, useLoad } from './base.js';
import { Cost } from './cache.js';
import { Story } from './story.js';
import { spent } from './subagents.js';
import { byLabel, sum } from './usage.js';

const day = 864e5;
const midnight = (back) => {
  const t = new Date();
  t.setHours(0, 0, 0, 0);
  return new Date(t.getTime() - back * day);
};
const named = (s) => clean(s.title || s.asked || s.chat_key || 'Untitled');

export function Today({ who }) {
  const [today, yesterday] = useMemo(() => [midnight(0), midnight(1)], []);
  const { data, error } = useLoad('/v1/memory/sessions?limit=60&include=story&since=' + yesterday.toISOString());
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<section aria-busy="true"></section>`;
  const sessions = data.data.filter((s) => !s.parent);
  const before = data.data.filter((s) => new Date(s.updated) < today);
  const days = [['Today', data.data.filter((s) => !before.includes(s))], ['Yesterday', before]];
  const story = (s) => s.story || {};
  const left = sessions.filter((s) => story(s).left);
  const failed = sessions.filter((s) => story(s).errors);
  return html`<section class="today">
    <div class="bar-top"><h1>A day in one look</h1></div>
    ${!sessions.length && html`<${Empty} title="Nothing today or yesterday"><p><${Link} to="/ui/">See all sessions<//>.</p><//>`}
    ${who.scopes.includes('admin') && html`<${Spending} account=${who.account} since=${yesterday.toISOString()} />`}
    <${Open} title="Left open" sessions=${left} of=${(s) => story(s).left.slice(0, 5).map((t) => html`<li>${clean(t)}</li>`)} />
    <${Open} title="Failed, and not seen to pass since" sessions=${failed} of=${(s) => [...new Set(story(s).errors)].slice(0, 2).map((t) => html`<li class="bad">${clean(t)}</li>`)} />
    ${days.map(([name, list]) => list.length > 0 && html`<${Day} name=${name} all=${list} key=${name} />`)}
    ${data.has_more && html`<p><${Link} to="/ui/?when=1d">There are more<//>: these are the newest ${data.data.length}.</p>`}
    <${Cost} path=${'/v1/memory/cache?since=' + yesterday.toISOString()} title="Caches since yesterday" />
  </section>`;
}

const first = 5; // sessions of a list that are shown at once

// Open lists what sessions left to do.
function Open({ title, sessions, of }) {
  if (!sessions.length) return null;
  const list = (some) => html`<ul class="open-work">${some.map((s) => html`<li><${Link} to=${'/ui/sessions/' + s.id}>${named(s)}<//> <small>${clean(project(s.project))}</small><ul>${of(s)}</ul></li>`)}</ul>`;
  return html`<h2>${title} <small>${sessions.length} ${sessions.length === 1 ? 'session' : 'sessions'}</small></h2>${list(sessions.slice(0, first))}
    ${sessions.length > first && html`<details><summary>${sessions.length - first} more</summary>${list(sessions.slice(first))}</details>`}`;
}

// Day lists the sessions of a day by project; sums have what subagents cost.
function Day({ name, all }) {
  const sessions = all.filter((s) => !s.parent);
  const projects = new Map();
  for (const s of all) projects.set(s.project || '', (projects.get(s.project || '') || []).concat(s));
  return html`<h2>${name} <small>${sessions.length} ${sessions.length === 1 ? 'session' : 'sessions'} · ${money(spent(all))}</small></h2>
    ${[...projects].map(([path, list]) => html`<section class="of-project"><h3 title=${path}>${clean(project(path)) || 'no project'} <small>${money(spent(list))}</small></h3>
      ${list.filter((s) => !s.parent).map((s) => html`<article><p><${Link} to=${'/ui/sessions/' + s.id}>${named(s)}<//> <small title=${full(s.updated)}>${ago(s.updated)} · ${s.client ? clean(s.client) + ' · ' : ''}<span title=${costTitle(s.cost)}>${cost(s.cost)}</span>${s.imported && html` · <span title=${'imported ' + full(s.imported)}>imported</span>`}</small></p><${Story} of=${{ ...s.story, left: undefined }} heading=${named(s)} directory=${s.project} /></article>`)}
    </section>`)}`;
}

// Spending is for people who manage the account: who spent what, and which budgets end soon.
function Spending({ account, since }) {
  const { data: usage } = useLoad('/v1/memory/usage?by=key&since=' + since);
  const month = new Date().toISOString().slice(0, 8) + '01T00:00:00Z';
  const { data: used } = useLoad('/v1/memory/usage?by=key&since=' + month);
  const { data: keys } = useLoad('/v1/admin/keys?account=' + encodeURIComponent(account));
  if (!usage || !usage.data.length) return null;
  const label = (id) => clean(((keys && keys.data) || []).map((k) => (k.id === id ? k.label : '')).join('')) || id;
  const ending = ((keys && keys.data) || []).filter((k) => !k.revoked && (k.limits || {}).budget_usd_month > 0).map((k) => [k, (((used && used.data) || []).find((l) => l.key === k.id) || { cost: { usd: 0 } }).cost.usd / k.limits.budget_usd_month]).filter(([, share]) => share >= 0.8);
  return html`<h2>Who spent what</h2>
    <table class="spent"><tbody>${byLabel(usage.data).slice(0, 8).map((l) => html`<tr><td>${clean(l.label) || label(l.key) || '–'}</td><td class="num">${l.requests} requests</td><td class="num">${l.errors ? html`<span class="bad">${l.errors} failed</span>` : ''}</td><td class="num">${money(sum(l))}</td></tr>`)}</tbody></table>
    ${ending.map(([k, share]) => html`<p class="warn-box">The budget of <b>${clean(k.label) || k.id}</b> for this month is used to ${Math.round(share * 100)} %.</p>`)}`;
}
