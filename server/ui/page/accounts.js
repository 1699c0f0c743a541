// An operator's view of all accounts: who spent what, whose caches broke, which budgets end soon, and what fails.

import { useEffect, useState } from 'preact/hooks';
import { api, clean, cost, costTitle, count, Empty, html, input, Link, money, percent, Problem, setQuery, useAddress, useLoad } from './base.js';
import { why } from './cache.js';
import { Budget } from './keys.js';
import { signedIn } from './tail.js';
import { spans, sum } from './usage.js';

const looked = 20; // accounts whose caches are looked at, those that spent most

export function useAccounts() {
  const { data } = useLoad('/v1/admin/accounts');
  return (data && data.data) || [];
}

// lookAt shows an account in every tab of the browser.
export async function lookAt(account, to) {
  await api('/session', { method: 'POST', body: { account } });
  signedIn();
  location.assign(to);
}

// useCaches gives the reports on the caches of accounts, by name.
function useCaches(names, since) {
  const [reports, set] = useState({});
  useEffect(() => {
    const control = new AbortController();
    set({});
    for (const name of names)
      api('/v1/admin/v1/memory/cache?since=' + since + '&account=' + encodeURIComponent(name), { signal: control.signal }).then(
        (report) => set((all) => ({ ...all, [name]: report })),
        () => {},
      );
    return () => control.abort();
  }, [names.join(), since]);
  return reports;
}

const soon = 0.8; // share of a budget from which it is said to end soon

export function Accounts({ who }) {
  const { query } = useAddress();
  const span = spans.find(([n]) => n === query.get('since')) || spans[1];
  const midnight = new Date();
  midnight.setUTCHours(0, 0, 0, 0);
  const day = midnight.toISOString().replace(/\.\d+Z$/, 'Z');
  const since = new Date(midnight - (span[2] - 1) * 864e5).toISOString().replace(/\.\d+Z$/, 'Z');
  const month = day.slice(0, 8) + '01T00:00:00Z';
  const may = who.scopes.includes('operator');
  const read = (by, from) => useLoad(may ? '/v1/admin/usage?by=' + by + '&since=' + from : null);
  const { data: usage, error } = read('account', since);
  const { data: models } = read('account,model', since);
  const [today, thisMonth, keysToday, keysMonth] = [read('account', day), read('account', month), read('key', day), read('key', month)].map(({ data }) => data && data.data);
  const { data: keys } = useLoad(may ? '/v1/admin/keys' : null);
  const accounts = useAccounts();
  const lines = new Map(((usage && usage.data) || []).map((l) => [l.account, l]));
  const spent = (name) => (lines.has(name) ? sum(lines.get(name)) : 0);
  const ranked = [...accounts].sort((a, b) => spent(b.name) - spent(a.name) || (a.name < b.name ? -1 : 1));
  const reports = useCaches(ranked.filter((a) => lines.has(a.name)).slice(0, looked).map((a) => a.name), since);
  if (!may) return html`<${Empty} title="This is for operators"><p>On the server’s own machine, <code>mneme ui --operator</code> opens it.</p><//>`;
  if (error) return html`<${Problem} error=${error} />`;
  const of = (list, field, name) => (list || []).find((l) => l[field] === name);
  const budgets = (x, field, name, [inDay, inMonth]) => [['day', x.budget_usd_day, of(inDay, field, name)], ['month', x.budget_usd_month, of(inMonth, field, name)]].filter(([, limit]) => limit > 0);
  const bars = (list) => list.map(([name, limit, line]) => html`<${Budget} spent=${line} limit=${limit} name=${name} />`);
  const ending = (list) => list.some(([, limit, line]) => line && line.cost.usd >= soon * limit);
  const endingKeys = ((keys && keys.data) || []).filter((k) => !k.revoked && ending(budgets(k.limits || {}, 'key', k.id, [keysToday, keysMonth])));
  const failing = ((models && models.data) || []).filter((l) => l.errors > 0).sort((a, b) => b.errors - a.errors).slice(0, 8);
  const open = (name, to) => (name === who.account ? html`<${Link} to=${to}>${name}<//>` : html`<button class="quiet link" onClick=${() => lookAt(name, to)}>${name}</button>`);
  return html`<section class="accounts" aria-busy=${!usage || !keys}>
    <div class="bar-top"><h1>Accounts</h1>
      <div class="filters"><label>span<select value=${span[0]} onChange=${(e) => setQuery({ since: e.target.value })}>${spans.map(([n, name]) => html`<option value=${n}>${name}</option>`)}</select></label></div></div>
    <div class="scroll" tabindex="0" role="region" aria-label="Accounts"><table><thead><tr><th>account</th><th class="num">cost</th><th class="num">requests</th><th class="num">failed</th><th class="num">in</th><th class="num">cached</th><th class="num">lost by broken caches</th><th class="budgets">budgets</th></tr></thead>
      <tbody>${ranked.map((a) => {
        const l = lines.get(a.name);
        const r = reports[a.name];
        const most = r && r.reasons.find((s) => why(s) !== 'unknown');
        return html`<tr key=${a.name}><td><b>${open(a.name, '/ui/')}</b></td><td class="num" title=${l && costTitle(l.cost)}>${l ? cost(l.cost) : '–'}</td><td class="num">${l ? count(l.requests) : ''}</td><td class=${'num' + (l && l.errors ? ' bad' : '')}>${(l && l.errors) || ''}</td><td class="num">${l ? count(input(l.usage)) : ''}</td><td class="num">${l ? percent(l.cache_share) : ''}</td>
          <td class="num">${r && r.breaks.length > 0 ? html`${r.usd ? money(r.usd) : count(r.tokens) + ' tokens'}${most && html`<br /><small>${why(most)}</small>`}` : ''}</td><td class="budgets">${bars(budgets(a, 'account', a.name, [today, thisMonth]))}</td></tr>`;
      })}</tbody></table></div>
    ${endingKeys.length > 0 && html`<h2>Budgets of keys that end soon</h2><table class="spent"><tbody>${endingKeys.map((k) => html`<tr><td><b>${clean(k.label) || k.id}</b> <small>of ${open(k.account, '/ui/keys')}</small></td><td>${bars(budgets(k.limits, 'key', k.id, [keysToday, keysMonth]))}</td></tr>`)}</tbody></table>`}
    ${failing.length > 0 && html`<h2>What fails</h2><table class="spent"><tbody>${failing.map((l) => html`<tr><td>${open(l.account, '/ui/?outcome=incomplete')}</td><td>${clean(l.model) || 'no model'}</td><td class="num bad">${l.errors} of ${count(l.requests)} failed</td></tr>`)}</tbody></table>`}
  </section>`;
}
