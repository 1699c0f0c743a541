// Asking again before something that cannot be undone.

import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from './base.js';

// Ask says what is going to happen and does it when it is confirmed, by typing a word where one is given.
export function Ask({ title, word, yes, act, close, children }) {
  const box = useRef(null);
  const [typed, setTyped] = useState('');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => box.current.showModal(), []);
  const submit = async (e) => {
    e.preventDefault();
    if (word && typed.trim() !== word) return setError('Type “' + word + '” to continue.');
    setBusy(true);
    try {
      await act();
      close();
    } catch (failure) {
      setError(failure.message);
      setBusy(false);
    }
  };
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="ask-title"><form onSubmit=${submit}>
    <h2 id="ask-title">${title}</h2>
    ${children}
    ${word && html`<label>Type “${word}” to continue<input name="word" value=${typed} autocomplete="off" onInput=${(e) => setTyped(e.target.value)} /></label>`}
    <p class="error" role="alert">${error}</p>
    <p class="ends"><button type="button" onClick=${close}>Cancel</button><button class="primary danger" disabled=${busy}>${yes}</button></p>
  </form></dialog>`;
}
