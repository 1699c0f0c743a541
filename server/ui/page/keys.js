import { useState } from 'preact/hooks';
import { ago, api, clean, Copy, Empty, full, html, money, Problem, useLoad } from './base.js';
import { Ask } from './ask.js';

const limitNames = [['requests_per_minute', 'requests/minute'], ['tokens_per_minute', 'tokens/minute'], ['concurrent', 'concurrent'], ['tokens_per_month', 'tokens/month'], ['repeats', 'repeats'], ['stalled_tokens', 'stalled tokens'], ['budget_usd_day', 'USD/day'], ['budget_usd_month', 'USD/month'], ['budget_usd_burst', 'USD/burst'], ['burst_minutes', 'minutes/burst']];

// Keys manages the account's service keys.
export function Keys({ who }) {
  const [tick, again] = useState(0);
  const may = who.scopes.includes('admin');
  const { data: keys, error } = useLoad(may ? '/v1/admin/keys?account=' + encodeURIComponent(who.account) : null, tick);
  const { data: accounts } = useLoad(may ? '/v1/admin/accounts' : null, tick);
  const { data: audit } = useLoad(may ? '/v1/admin/audit?limit=20&account=' + encodeURIComponent(who.account) : null, tick);
  const month = new Date().toISOString().slice(0, 8) + '01T00:00:00Z';
  const { data: spent } = useLoad('/v1/memory/usage?by=key&since=' + month, tick);
  const today = new Date().toISOString().slice(0, 10) + 'T00:00:00Z';
  const { data: spentToday } = useLoad('/v1/memory/usage?by=key&since=' + today, tick);
  const [made, setMade] = useState(null);
  if (!may) return html`<${Empty} title="This key cannot manage keys"><p>Managing keys needs the scope <b>admin</b>; you signed in with ${who.scopes.join(', ')}. On the server’s own machine, <code>mneme ui</code> opens this page with every scope.</p><//>`;
  if (error) return html`<${Problem} error=${error} again=${() => again((n) => n + 1)} />`;
  const of = (list, id) => ((list && list.data) || []).find((l) => l.key === id);
  const account = ((accounts && accounts.data) || []).find((a) => a.name === who.account);
  const done = (secret) => {
    if (secret) setMade(secret);
    again((n) => n + 1);
  };
  const over = (k) => k.revoked || (k.expires && new Date(k.expires) < Date.now());
  const live = ((keys && keys.data) || []).filter((k) => !over(k));
  const gone = ((keys && keys.data) || []).filter(over);
  return html`<section class="keys" aria-busy=${!keys}>
    <div class="bar-top"><h1>Keys of ${who.account}</h1></div>
    ${made && html`<div class="note made" role="status"><p>This key is shown once:</p><p><code class="secret">${made.key}</code> <${Copy} text=${made.key} /> <button onClick=${() => setMade(null)}>Done</button></p></div>`}
    ${account && (account.budget_usd_day > 0 || account.budget_usd_month > 0) && html`<p>Account budget: <${Budget} spent=${spent && spent.total} limit=${account.budget_usd_month} name="month" /><${Budget} spent=${spentToday && spentToday.total} limit=${account.budget_usd_day} name="day" /></p>`}
    <div class="scroll" tabindex="0" role="region" aria-label="Keys"><table><thead><tr><th>key</th><th>scopes</th><th>limits</th><th>spent this month</th><th>last used</th><th>state</th><th><span class="sr">actions</span></th></tr></thead>
      <tbody>${live.map((k) => html`<${Row} k=${k} spent=${of(spent, k.id)} today=${of(spentToday, k.id)} done=${done} own=${k.id === who.key} key=${k.id} />`)}</tbody></table></div>
    <${NewKey} account=${who.account} done=${done} />
    ${gone.length > 0 && html`<details><summary>${gone.length} revoked or expired</summary><ul>${gone.map((k) => html`<li><code>${k.id}</code> ${clean(k.label || '')} <small>${k.revoked ? 'revoked ' + ago(k.revoked) : 'expired ' + ago(k.expires)}</small></li>`)}</ul></details>`}
    ${audit && audit.data.length > 0 && html`<h2>Audit record</h2><div class="scroll" tabindex="0" role="region" aria-label="Audit"><table><tbody>${audit.data.map((e) => html`<tr><td title=${full(e.time)}>${ago(e.time)}</td><td>${e.action}</td><td><code>${clean(e.subject || '')}</code></td><td><small>by ${clean(e.actor)}</small></td></tr>`)}</tbody></table></div>`}
  </section>`;
}

export function Budget({ spent, limit, name }) {
  if (!(limit > 0)) return null;
  const usd = (spent && spent.cost.usd) || 0;
  const share = usd / limit;
  return html`<span class=${'budget ' + (share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : '')}>${money(usd)} of ${money(limit)} a ${name} <meter min="0" max="1" high="0.8" value=${Math.min(share, 1)} aria-label=${'budget of the ' + name}></meter></span> `;
}

function Row({ k, spent, today, done, own }) {
  const [editing, setEditing] = useState(false);
  const [asking, setAsking] = useState('');
  const [error, setError] = useState('');
  const act = async (f) => {
    try {
      setError('');
      done(await f());
    } catch (failure) {
      setError(failure.message);
    }
  };
  const rotate = () => act(() => api('/v1/admin/keys/' + k.id + '/rotate', { method: 'POST', body: { overlap: 864e11 } }));
  const revoke = async () => done(await api('/v1/admin/keys/' + k.id, { method: 'DELETE' }));
  const save = (e) => {
    e.preventDefault();
    const form = new FormData(e.target);
    const limits = {};
    for (const [name] of limitNames) {
      const text = String(form.get(name)).trim();
      limits[name] = text === '' ? 0 : Number(text);
    }
    act(async () => {
      await api('/v1/admin/keys/' + k.id, { method: 'PATCH', body: { label: String(form.get('label')), limits } });
      setEditing(false);
    });
  };
  const l = k.limits || {};
  return html`<tr><td><b>${clean(k.label) || html`<span class="dim">no label</span>`}</b><br /><code>${k.id}</code></td><td>${k.scopes}</td>
      <td>${limitNames.filter(([n]) => l[n]).map(([n, name]) => html`<div>${l[n] < 0 ? 'any' : l[n].toLocaleString('en-US')} ${name}</div>`)}</td>
      <td>${money((spent && spent.cost.usd) || 0)}<br /><${Budget} spent=${spent} limit=${l.budget_usd_month} name="month" /><${Budget} spent=${today} limit=${l.budget_usd_day} name="day" /></td>
      <td title=${full(k.last_used)}>${k.last_used ? ago(k.last_used) : 'never'}</td><td>${k.expires ? html`<span title=${full(k.expires)}>until ${full(k.expires)}</span>` : 'valid'}${own ? html`<br /><small>yours</small>` : ''}</td>
      <td class="acts"><button class="quiet" aria-expanded=${editing} onClick=${() => setEditing(!editing)}>limits</button><button class="quiet" onClick=${() => setAsking('rotate')}>rotate</button>${!own && html`<button class="quiet bad" onClick=${() => setAsking('revoke')}>revoke</button>`}</td></tr>
    ${asking && html`<tr><td colspan="7">${
      asking === 'rotate'
        ? html`<${Ask} title="Rotate this key?" yes="Rotate" act=${rotate} close=${() => setAsking('')}><p>This creates a new key like <b>${clean(k.label) || k.id}</b> and shows it once. The old one expires in 24 hours.</p><//>`
        : html`<${Ask} title="Revoke this key?" yes="Revoke" act=${revoke} close=${() => setAsking('')}><p>Requests with <b>${clean(k.label) || k.id}</b> are refused from now on. This cannot be undone.</p><//>`
    }</td></tr>`}
    ${error && html`<tr><td colspan="7"><p class="error" role="alert">${error}</p></td></tr>`}
    ${editing && html`<tr><td colspan="7"><form class="inline" onSubmit=${save}><label>label<input name="label" defaultValue=${k.label || ''} /></label>${limitNames.map(([n, name]) => html`<label>${name}<input name=${n} type="number" min="-1" step="any" defaultValue=${l[n] || ''} placeholder="server’s" /></label>`)}<button class="primary">Save</button><button type="button" onClick=${() => setEditing(false)}>Cancel</button><small>Empty: the server’s limit. −1: no limit.</small></form></td></tr>`}`;
}

function NewKey({ account, done }) {
  const [error, setError] = useState('');
  const make = async (e) => {
    e.preventDefault();
    const form = new FormData(e.target);
    const scopes = ['write', 'read', 'erase', 'admin'].filter((s) => form.get(s)).join(',');
    try {
      setError('');
      done(await api('/v1/admin/keys', { method: 'POST', body: { account, label: String(form.get('label')), scopes } }));
      e.target.reset();
    } catch (failure) {
      setError(failure.message);
    }
  };
  return html`<details class="new"><summary>New key</summary><form class="inline" onSubmit=${make}><label>label<input name="label" required placeholder="who or what it is for" /></label>
    <fieldset><legend>scopes</legend>${['write', 'read', 'erase', 'admin'].map((s) => html`<label class="check"><input type="checkbox" name=${s} checked=${s === 'write' || s === 'read'} />${s}</label>`)}</fieldset>
    <button class="primary">Create</button></form><p class="error" role="alert">${error}</p></details>`;
}
