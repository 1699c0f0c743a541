// Pictures of a conversation.

import { useState } from 'preact/hooks';
import { bytes, clean, html } from './base.js';

// Media shows a picture that the request or the answer holds. What it only names is not loaded: that alone would tell its host something.
export function Media({ part: p, exchange, within, place }) {
  const [state, set] = useState('');
  const what = [clean(p.media_type || 'media'), clean(p.name || ''), p.bytes ? bytes(p.bytes) : ''].filter(Boolean).join(' ');
  if (p.url) return html`<p class="media">kept elsewhere, and not loaded: <code>${clean(p.url)}</code></p>`;
  if (!p.bytes || state === 'none' || !exchange || !/^(image\/|$)/.test(p.media_type || '')) return html`<p class="media">${what}</p>`;
  return html`<button class=${'picture ' + state} aria-expanded=${state === 'whole'} title=${what} onClick=${() => set(state ? '' : 'whole')}>
    <img loading="lazy" src=${'/ui/v1/memory/exchanges/' + exchange + '/' + within + '/parts/' + place} alt=${what} onError=${() => set('none')} />
  </button>`;
}
