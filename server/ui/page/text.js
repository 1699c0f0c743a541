// Shows the text of a conversation. Text of models and tools is never markup before it is sanitised, and nothing in it is loaded.

import { marked } from 'marked';
import { useMemo, useState } from 'preact/hooks';
import { clean, Copy, html } from './base.js';
import { colored } from './code.js';
import { laidOut } from './json.js';

const longText = 20000; // characters that are shown at once

const allowed = {
  ALLOWED_TAGS: ['p', 'span', 'br', 'hr', 'b', 'strong', 'i', 'em', 'del', 's', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'a', 'sup', 'sub'],
  ALLOWED_ATTR: ['href', 'start', 'align', 'class'], // classes are this page's own: markup of a text is escaped
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};

let prepared = false;
function prepare() {
  if (prepared) return;
  prepared = true;
  window.DOMPurify.addHook('afterSanitizeAttributes', (node) => {
    if (node.tagName !== 'A') return;
    node.setAttribute('rel', 'noopener noreferrer nofollow');
    node.setAttribute('target', '_blank');
    const href = node.getAttribute('href');
    if (href) node.setAttribute('title', href); // what a link says and where it leads may be two things
  });
  marked.use({
    renderer: {
      image: ({ href, text }) => '<code>[image: ' + escape(text || href) + ']</code>', // is not loaded: that alone would tell its host something
      html: ({ text }) => escape(text),
      code: ({ text, lang }) => '<pre><code>' + colored(text, lang, escape) + '</code></pre>',
    },
  });
}

function escape(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
}

export function Markdown({ text }) {
  const [whole, setWhole] = useState(false);
  const safe = useMemo(() => {
    prepare();
    const shown = clean(whole ? text : text.slice(0, longText));
    try {
      return window.DOMPurify.sanitize(marked.parse(shown, { gfm: true, breaks: false }), allowed);
    } catch {
      return escape(shown);
    }
  }, [text, whole]);
  return html`<div class="markdown" dangerouslySetInnerHTML=${{ __html: safe }}></div>
    ${text.length > longText && !whole && html`<button class="quiet" onClick=${() => setWhole(true)}>show all ${Math.round(text.length / 1000)} k characters</button>`}`;
}

// Plain is text as it is, folded to some lines.
export function Plain({ text, lines = 12, open = false, label = '' }) {
  const [all, set] = useState(open);
  const value = clean(text);
  const rows = useMemo(() => value.split('\n'), [value]);
  const long = rows.length > lines || value.length > lines * 400;
  const shown = all ? value.slice(0, longText * 10) : rows.slice(0, lines).join('\n').slice(0, lines * 400);
  return html`<pre class="plain" tabindex="0" aria-label=${label}>${shown}</pre>
    ${long && html`<button class="quiet" aria-expanded=${all} onClick=${() => set(!all)}>${all ? 'fold' : 'show all ' + rows.length + (rows.length === 1 ? ' line' : ' lines')}</button>`}`;
}

// Diff shows lines that are taken out and put in.
export function Diff({ before, after }) {
  const rows = useMemo(() => difference(clean(before).split('\n'), clean(after).split('\n')), [before, after]);
  return html`<pre class="diff" tabindex="0" aria-label="change">${rows.map(([sign, line]) => html`<span class=${sign === '+' ? 'added' : sign === '-' ? 'removed' : ''}>${sign} ${line}${'\n'}</span>`)}</pre>`;
}

// difference finds the lines that both have, by their longest common subsequence where the texts are short.
export function difference(a, b) {
  let front = 0;
  while (front < a.length && front < b.length && a[front] === b[front]) front++;
  let back = 0;
  while (back < a.length - front && back < b.length - front && a[a.length - 1 - back] === b[b.length - 1 - back]) back++;
  const rows = [];
  const same = (line) => rows.push([' ', line]);
  const around = 3;
  a.slice(Math.max(front - around, 0), front).forEach(same);
  const x = a.slice(front, a.length - back);
  const y = b.slice(front, b.length - back);
  if (x.length * y.length > 250000) {
    x.forEach((line) => rows.push(['-', line]));
    y.forEach((line) => rows.push(['+', line]));
  } else {
    const width = y.length + 1;
    const common = new Uint32Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        common[i * width + j] = x[i] === y[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
      }
    }
    let i = 0;
    let j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        same(x[i]);
        i++;
        j++;
      } else if (j >= y.length || (i < x.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
        rows.push(['-', x[i++]]);
      } else {
        rows.push(['+', y[j++]]);
      }
    }
  }
  if (back) b.slice(b.length - back, b.length - back + around).forEach(same);
  return rows;
}

// Bytes shows a body: JSON laid out, or as it came.
export function Body({ text, name }) {
  const [laid, set] = useState(true);
  const json = useMemo(() => (text.length < 2e6 ? laidOut(text) : text), [text]);
  const [all, setAll] = useState(false);
  const value = clean(laid ? json : text);
  return html`<figure class="body">
    <figcaption>${name} <small>${text.length.toLocaleString('en-US')} characters</small>
      <span class="tools">${json !== text && html`<button class="quiet" aria-pressed=${!laid} onClick=${() => set(!laid)}>${laid ? 'original' : 'formatted'}</button>`}<${Copy} text=${text} /></span></figcaption>
    <pre tabindex="0" aria-label=${name}>${all ? value : value.slice(0, longText * 5)}</pre>
    ${value.length > longText * 5 && !all && html`<button class="quiet" onClick=${() => setAll(true)}>show all</button>`}
  </figure>`;
}
