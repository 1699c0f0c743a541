// What people say of sessions and turns: thumbs, tags and notes.

import { useState } from 'preact/hooks';
import { api, clean, html } from './base.js';

const verdicts = ['good', 'bad'];

// Thumb is drawn, since many systems without a desktop have no font with the sign.
const Thumb = ({ down }) => html`<svg class=${down ? 'thumb down' : 'thumb'} viewBox="0 0 16 16" aria-hidden="true"><path d="M2 7.500h2.500V14H2zM4.500 7.500 7.500 2c1.300 0 1.900.9 1.600 2.100l-.6 2.400h4c1.100 0 1.700.9 1.400 1.900l-1.300 4.300c-.2.8-.8 1.300-1.600 1.300H4.500" /></svg>`;

// Thumbs say good or bad of something, or take that back. A verdict is a tag, so that lists can be narrowed down to it.
export function Thumbs({ tags, of = '', change }) {
  const judge = (verdict) => change({ tags: tags.filter((t) => !verdicts.includes(t)).concat(tags.includes(verdict) ? [] : verdict) });
  return verdicts.map((v) => html`<button class="quiet" aria-pressed=${tags.includes(v)} aria-label=${v + of} title=${v} onClick=${() => judge(v)}><${Thumb} down=${v === 'bad'} /></button>`);
}

export const Tags = ({ tags }) => (tags || []).map((t) => html` <span class="tag">${clean(t)}</span>`);

export const Note = ({ text }) => text && html`<p class="remark">${clean(text)}</p>`;

// useRemark gives what people say of a turn, in two parts: what stands in its head, and what stands below.
export function useRemark(x, who, number) {
  const [editing, setEditing] = useState(false);
  const [error, setError] = useState('');
  const [, draw] = useState(0);
  const change = async (asked) => {
    try {
      const { tags, note } = await api('/v1/memory/exchanges/' + x.id, { method: 'PATCH', body: asked });
      Object.assign(x, { tags, note }); // of the list that the turn is drawn from, again and again while it scrolls
      setEditing(false);
      setError('');
      draw((n) => n + 1);
    } catch (failure) {
      setError(failure.message);
    }
  };
  const save = (e) => {
    e.preventDefault();
    change({ note: String(new FormData(e.target).get('note')).trim() });
  };
  const may = who.scopes.includes('write') && x.outcome !== 'open';
  return [
    html`<${Tags} tags=${x.tags} />${may && html`<${Thumbs} tags=${x.tags || []} of=${' turn ' + number} change=${change} /><button class="quiet" onClick=${() => setEditing(!editing)}>note</button>`}`,
    html`${editing
      ? html`<form class="inline" onSubmit=${save}><label class="wide">Note on turn ${number}<textarea name="note" rows="3" maxlength="1000">${x.note || ''}</textarea></label><button class="primary">Save</button><button type="button" onClick=${() => setEditing(false)}>Cancel</button></form>`
      : html`<${Note} text=${x.note} />`}
    ${error && html`<p class="error" role="alert">${error}</p>`}`,
  ];
}
