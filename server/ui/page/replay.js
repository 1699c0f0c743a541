// A request sent again to another model, beside what it was answered then.

import { useEffect, useState } from 'preact/hooks';
import { api, between, cached, clean, cost, costTitle, count, Empty, Failure, html, input, lasted, Link, Model, money, percent, Problem, setQuery, useAddress, useLoad } from './base.js';
import { laidOut, withModel } from './json.js';
import { Media } from './media.js';
import { Markdown, Plain } from './text.js';

const paths = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages', gemini: '/v1beta/models/' };
const kept = ['anthropic-version', 'anthropic-beta']; // headers that say how the request is to be read
const keyLife = 300e3; // milliseconds; a page that is closed meanwhile does not revoke its key

// addressed gives where the request of an exchange goes for another model, and its body. Google's clients name the model in the
// path, and need not in the body.
function addressed(x, request, model) {
  if (x.surface !== 'gemini') return [paths[x.surface], withModel(request, model)];
  const verb = x.stream ? ':streamGenerateContent?alt=sse' : ':generateContent';
  const body = 'model' in JSON.parse(request) ? withModel(request, 'models/' + model) : request;
  return [paths.gemini + model.split('/').map(encodeURIComponent).join('/') + verb, body];
}

// send sends the request of an exchange to another model and gives the id of the new exchange. Surfaces take no cookie: a key
// is made for it, and revoked.
async function send(x, model, account) {
  const whole = await api('/v1/memory/exchanges/' + x.id + '?include=raw_request');
  const [path, body] = addressed(x, whole.raw_request, model);
  const headers = { 'Content-Type': 'application/json', 'X-Service-External-Session-ID': 'replay of ' + x.id, 'X-Service-Replay': x.id };
  for (const field of whole.header || []) if (kept.includes(field.name.toLowerCase())) headers[field.name] = field.value;
  const key = await api('/v1/admin/keys', { method: 'POST', body: { account, scopes: 'write', label: 'replay of ' + x.id, expires: new Date(Date.now() + keyLife).toISOString() } });
  try {
    const response = await fetch(path, { method: 'POST', headers: { ...headers, 'X-Service-API-Key': key.key }, body });
    const text = await response.text();
    const id = response.headers.get('X-Service-Exchange-ID');
    if (id) return id;
    let error = {};
    try {
      error = JSON.parse(text).error || {};
    } catch {
      error = { message: text.slice(0, 200) };
    }
    throw new Failure(response.status, error);
  } finally {
    await api('/v1/admin/keys/' + key.id, { method: 'DELETE' });
  }
}

export function Replay({ x, who }) {
  const { query } = useAddress();
  const other = query.get('with') || '';
  const month = new Date(Date.now() - 30 * 864e5).toISOString().slice(0, 10) + 'T00:00:00Z';
  const { data: used } = useLoad('/v1/memory/usage?by=model&since=' + month);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const models = ((used && used.data) || []).map((l) => l.model).filter(Boolean);
  const may = who.scopes.includes('admin') && who.scopes.includes('write');
  if (!paths[x.surface] || x.auxiliary) return html`<${Empty} title="Nothing to replay"><p>This is no request for a model’s answer.</p><//>`;
  const submit = async (e) => {
    e.preventDefault();
    setBusy(true);
    setError(null);
    const page = location.pathname;
    try {
      const sent = await send(x, new FormData(e.target).get('model').trim(), who.account);
      if (location.pathname === page) setQuery({ with: sent, turn: x.id });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return html`<div class="replay">
    ${may
      ? html`<form class="inline" onSubmit=${submit}><label>model<input name="model" list="models" required placeholder=${x.model_asked} autocomplete="off" /></label><datalist id="models">${models.map((m) => html`<option value=${m}></option>`)}</datalist>
          <button class="primary" disabled=${busy}>${busy ? 'asking…' : 'Send it again'}</button><small>It is recorded in a session of its own, and costs what it costs.</small></form>`
      : html`<p class="hint">To send it from here, sign in with a key of the scopes write and admin; or use <code>mneme exchange replay ${x.id} --model NAME</code>.</p>`}
    <${Problem} error=${error} />
    <div class="pair"><${Answer} id=${x.id} name="then" />${other ? html`<${Answer} id=${other} name="replay" key=${other} />` : html`<figure><figcaption>replay</figcaption><p class="hint">Nothing sent yet.</p></figure>`}</div>
  </div>`;
}

// Answer is what an exchange was answered, with its figures.
function Answer({ id, name }) {
  const [tick, again] = useState(0);
  const { data: x, error } = useLoad('/v1/memory/exchanges/' + id + '?include=normalized', tick);
  const open = x && x.outcome === 'open';
  useEffect(() => {
    if (!open) return undefined;
    const soon = setTimeout(() => again((n) => n + 1), 1000);
    return () => clearTimeout(soon);
  }, [open, tick]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!x) return html`<figure aria-busy="true"></figure>`;
  const parts = ((x.normalized && x.normalized.answer) || []).flatMap((m) => m.parts);
  return html`<figure><figcaption>${name} <${Model} name=${x.model_served || x.model_asked} /> ${x.session && html`<${Link} to=${'/ui/sessions/' + x.session + '?turn=' + x.id}>open<//>`}</figcaption>
    <dl class="facts"><div title=${costTitle(x.cost)}><dt>cost</dt><dd>${x.cost ? money(x.cost.usd) : cost(null)}</dd></div><div><dt>first byte</dt><dd>${lasted(between(x.started, x.first_byte))}</dd></div><div><dt>in all</dt><dd>${lasted(between(x.started, x.last_byte))}</dd></div><div><dt>in</dt><dd>${count(input(x.usage))} <small>${percent(cached(x.usage))} cached</small></dd></div><div><dt>out</dt><dd>${count((x.usage || {}).output || 0)}</dd></div></dl>
    ${parts.map((p, i) => (p.kind === 'media' ? html`<${Media} part=${p} exchange=${x.id} within="answer" place=${i} />` : p.kind === 'call' ? html`<details class="tool" open><summary><b>${clean(p.name)}</b></summary><${Plain} text=${laidOut(p.arguments || '')} label="arguments" /></details>` : p.kind === 'reasoning' ? html`<details class="reasoning"><summary>reasoning</summary><${Plain} text=${p.text || ''} label="reasoning" /></details>` : html`<${Markdown} text=${p.text || ''} />`))}
    ${x.error && html`<p class="error">${clean(x.error.message)}</p>`}
  </figure>`;
}
