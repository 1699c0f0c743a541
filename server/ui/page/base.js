// What every view stands on: elements, the API, the address, and how values are written.

import { h } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import htm from 'htm';

export const html = htm.bind(h);

// ---- API ---------------------------------------------------------------------------------------------------------

export class Failure extends Error {
  constructor(status, error) {
    super(error.message || 'The server answered with status ' + status + '.');
    this.status = status;
    this.kind = error.kind;
    this.code = error.code;
  }
}

const listeners = new Set();

// onSignedOut is called when the server no longer takes the sign-in.
export function onSignedOut(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

export async function api(path, options = {}) {
  let response;
  try {
    response = await fetch('/ui' + path, {
      method: options.method || 'GET',
      headers: { 'X-Mneme-UI': '1', ...(options.body === undefined ? {} : { 'Content-Type': 'application/json' }), ...options.headers },
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
    });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Failure(0, { kind: 'unreachable', message: 'The server cannot be reached. This page goes on when it is back.' });
  }
  if (response.status === 204) return null;
  const text = await response.text();
  let answer = null;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: { message: text.slice(0, 200) } };
  }
  if (response.ok) return answer;
  const failure = new Failure(response.status, answer.error || {});
  if (response.status === 401 && failure.code === 'signed_out') listeners.forEach((f) => f());
  throw failure;
}

// useLoad gives what a path answers, and keeps showing the former answer while a new one is on its way.
export function useLoad(path, again = 0) {
  const [state, set] = useState({ data: null, error: null, path: null });
  useEffect(() => {
    if (!path) return undefined;
    const control = new AbortController();
    api(path, { signal: control.signal }).then(
      (data) => set({ data, error: null, path }),
      (error) => error.name !== 'AbortError' && set({ data: null, error, path }),
    );
    return () => control.abort();
  }, [path, again]);
  return state;
}

// ---- Address -----------------------------------------------------------------------------------------------------
// The address is the state: every filter, hit and turn has a link.

const moved = new Set();

export function go(to, replace = false) {
  const url = new URL(to, location.href);
  if (url.href === location.href) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  moved.forEach((f) => f());
}

addEventListener('popstate', () => moved.forEach((f) => f()));

export function useAddress() {
  const read = () => ({ path: location.pathname.replace(/^\/ui\/?/, ''), query: new URLSearchParams(location.search) });
  const [address, set] = useState(read);
  useEffect(() => {
    const f = () => set(read());
    moved.add(f);
    return () => moved.delete(f);
  }, []);
  return address;
}

// setQuery changes parameters of the address; an empty value takes one out.
export function setQuery(changes, replace = true) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === '' || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(location.pathname + (text ? '?' + text : ''), replace);
}

export function Link({ to, children, ...rest }) {
  const click = (e) => {
    if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${click} ...${rest}>${children}</a>`;
}

// useTitle names the tab of the browser after the page.
export function useTitle(name) {
  useEffect(() => {
    if (name) document.title = clean(name).slice(0, 80) + ' · mneme';
  }, [name]);
}

// useKeys binds single keys, but not while somebody types or a dialog is open.
export function useKeys(bindings) {
  const now = useRef(bindings);
  now.current = bindings;
  useEffect(() => {
    const press = (e) => {
      if (e.metaKey || e.ctrlKey || e.altKey) return;
      if (document.querySelector('dialog[open]') || (e.target.closest && e.target.closest('input, textarea, select, [contenteditable]'))) return;
      const act = now.current[e.key];
      if (act && act(e) !== false) e.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

// save gives the browser a file.
export function save(blob, name) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

// ---- Values ------------------------------------------------------------------------------------------------------

export function money(usd) {
  if (usd === null || usd === undefined) return '–';
  if (usd === 0) return '$0';
  const size = Math.abs(usd);
  if (size < 0.0001) return (usd < 0 ? '−' : '') + '<$0.0001';
  if (size < 0.01) return '$' + usd.toFixed(4);
  if (size < 100) return '$' + usd.toFixed(2);
  return '$' + Math.round(usd).toLocaleString('en-US');
}

// cost writes what exchanges cost: "~" where some of it is estimated, "?" where there is no price.
export function cost(spending) {
  if (!spending) return '–';
  const sum = (spending.usd || 0) + (spending.notional_usd || 0);
  if (sum === 0 && spending.unpriced) return '?';
  return (spending.unpriced || spending.estimated ? '~' : '') + money(sum);
}

export function costTitle(spending) {
  if (!spending) return 'no known price';
  const parts = ['$' + ((spending.usd || 0) + (spending.notional_usd || 0))];
  if (spending.notional_usd || spending.notional === true) parts.push('list price: the caller’s own credential paid');
  if (spending.saved_usd) parts.push('caches saved $' + spending.saved_usd);
  if (spending.unpriced) parts.push(spending.unpriced + ' without a known price');
  if (spending.estimated) parts.push('partly estimated');
  if (spending.price) parts.push(spending.price);
  return parts.join(' · ');
}

export function count(n) {
  if (n === null || n === undefined) return '–';
  if (n < 1000) return String(n);
  if (n < 9950) return (n / 1000).toFixed(1) + ' k';
  if (n < 999500) return Math.round(n / 1000) + ' k';
  if (n < 9950000) return (n / 1e6).toFixed(1) + ' M';
  return Math.round(n / 1e6).toLocaleString('en-US') + ' M';
}

export function bytes(n) {
  if (n < 1000) return n + ' B';
  if (n < 1e6) return (n / 1e3).toFixed(n < 9950 ? 1 : 0) + ' KB';
  if (n < 1e9) return (n / 1e6).toFixed(1) + ' MB';
  return (n / 1e9).toFixed(1) + ' GB';
}

export function lasted(ms) {
  if (!(ms >= 0)) return '–';
  if (ms < 1000) return Math.round(ms) + ' ms';
  if (ms < 10000) return (ms / 1000).toFixed(1) + ' s';
  if (ms < 600000) return Math.round(ms / 1000) + ' s';
  return Math.round(ms / 60000) + ' min';
}

export function between(from, to) {
  if (!from || !to) return NaN;
  return new Date(to) - new Date(from);
}

const dayFormat = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const clockFormat = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const fullFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

export function ago(time) {
  if (!time) return '–';
  const seconds = (Date.now() - new Date(time)) / 1000;
  if (seconds < 60) return 'now';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h';
  if (seconds < 7 * 86400) return Math.floor(seconds / 86400) + ' d';
  return dayFormat.format(new Date(time));
}

export function clock(time) {
  return time ? clockFormat.format(new Date(time)) : '–';
}

export function full(time) {
  return time ? fullFormat.format(new Date(time)) : '';
}

export function percent(share) {
  return Math.round((share || 0) * 100) + ' %';
}

// input is the whole prompt of a usage.
export function input(u) {
  return u ? (u.input_uncached || 0) + (u.cache_read || 0) + (u.cache_write || 0) : 0;
}

export function cached(u) {
  const all = input(u);
  return all ? (u.cache_read || 0) / all : 0;
}

// clean makes control characters visible: terminal escapes among them are text here.
export function clean(text) {
  return String(text === null || text === undefined ? '' : text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\ufffd';
  });
}

// plain is a text without the marks of Markdown that are read over.
export const plain = (text) => clean(text).replace(/`|\*\*/g, '');

export function project(path) {
  if (!path) return '';
  const parts = path.split(/[\\/]/).filter(Boolean);
  return parts.length ? parts[parts.length - 1] : path;
}

// ---- Pieces that views share -------------------------------------------------------------------------------------

export function Problem({ error, again }) {
  if (!error) return null;
  if (error.kind === 'permission_error' || error.status === 403) return html`<div class="note" role="status"><h2>Not allowed with this key</h2><p>${error.message}</p></div>`;
  if (error.status === 404) return html`<div class="note" role="status"><h2>Not found</h2><p>There is nothing of that name in this account. It may have been erased, or belong to another account.</p></div>`;
  if (error.status === 401) return null;
  return html`<div class="note" role="alert"><h2>That did not work</h2><p>${error.message}</p>${again && html`<button onClick=${again}>Try again</button>`}</div>`;
}

export function Empty({ title, children }) {
  return html`<div class="note"><h2>${title}</h2>${children}</div>`;
}

// Bar is a share of something as a bar; parts are [{value, name}].
export function Bar({ parts, total, title }) {
  let at = 0;
  const all = total || parts.reduce((sum, p) => sum + p.value, 0) || 1;
  return html`<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${title || ''}>
    <rect class="bar-rest" x="0" y="0" width="100" height="6" />
    ${parts.map((p) => {
      const width = (p.value / all) * 100;
      const x = at;
      at += width;
      return html`<rect class=${'fill-' + p.name} x=${x} y="0" width=${Math.max(width, 0)} height="6"><title>${p.title || ''}</title></rect>`;
    })}
  </svg>`;
}

export function Copy({ text, label = 'copy', title, plain }) {
  const [done, set] = useState(false);
  const copy = useCallback(async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? await text() : text);
      set(true);
      setTimeout(() => set(false), 1200);
    } catch {
      set(false);
    }
  }, [text]);
  return html`<button type="button" class=${plain ? '' : 'quiet'} onClick=${copy} title=${title || ''}>${done ? 'copied' : label}</button>`;
}

export function Model({ name }) {
  return html`<span class="model">${clean(name) || '–'}</span>`;
}

const outcomes = { complete: ['✓', 'ok'], open: ['●', 'live'], client_closed: ['◌', 'dim'], upstream_error: ['✗', 'bad'], interrupted: ['✗', 'bad'], stopped: ['✗', 'bad'], refused: ['⊘', 'warn'], damaged: ['✗', 'bad'] };

export function Outcome({ of, error }) {
  const [sign, tone] = outcomes[of] || ['?', 'dim'];
  const words = String(of || '').replace('_', ' ') + (error ? ': ' + clean(error.message) : '');
  return html`<span class=${'outcome ' + tone} title=${words}><span aria-hidden="true">${sign}</span><span class="sr">${words}</span></span>`;
}
