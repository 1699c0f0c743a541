// A session goes on elsewhere: in the history of another agent, with a first message, or as a page to share.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, clean, Copy, Failure, html, save } from './base.js';
import { clients } from './story.js';

const receivers = ['claude-code', 'codex', 'opencode'];

// Handoff lets another agent go on with a session. Who may not write its history here gets the command that does.
export function Handoff({ session: s, who, close }) {
  const box = useRef(null);
  const [to, setTo] = useState(receivers.find((name) => clients[name] !== clients[s.client]));
  const [made, setMade] = useState(null);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => box.current.showModal(), []);
  const hand = async (e) => {
    e.preventDefault();
    setBusy(true);
    setError('');
    setMade(null);
    try {
      setMade(await api('/v1/sessions/' + s.id + '/handoff', { method: 'POST', body: { to } }));
    } catch (failure) {
      setError(failure.message);
    }
    setBusy(false);
  };
  const message = async () => (await api('/v1/sessions/' + s.id + '/message')).message;
  const command = made ? made.command : who.histories ? '' : 'mneme handoff ' + s.id + ' --to ' + to;
  return html`<dialog ref=${box} class="handoff" onClose=${close} aria-labelledby="handoff-title"><form onSubmit=${hand}>
    <h2 id="handoff-title">Go on with another agent</h2>
    <fieldset><legend>Agent</legend>${receivers.map((name) => html`<label class="check"><input type="radio" name="to" value=${name} checked=${to === name} onChange=${() => (setTo(name), setMade(null), setError(''))} />${clients[name]}</label>`)}</fieldset>
    <p>${who.histories ? 'Writes the conversation into its history on this machine, as a new one: no file that exists is changed.' : 'Its history is on the machine where it runs. There, this writes the conversation into it, as a new one:'}</p>
    ${made && html`<p role="status">It is in the history of ${clients[made.client]}. Go on with it there:</p>`}
    ${command && html`<div class="line"><pre tabindex="0" aria-label="command">${clean(command)}</pre><${Copy} text=${command} /></div>`}
    <p class="error" role="alert">${error}</p>
    <p class="ends"><${Copy} text=${message} label="Copy a first message" title="for any agent: goal, outcome, what was decided, what is left, files and failures" plain=${true} /><span class="grow"></span><button type="button" onClick=${close}>${made ? 'Close' : 'Cancel'}</button>${who.histories && html`<button class="primary" disabled=${busy || made}>Hand over</button>`}</p>
  </form></dialog>`;
}

// download saves a session as one page.
export async function download(s, name) {
  const response = await fetch('/ui/v1/sessions/' + s.id + '/page', { headers: { 'X-Mneme-UI': '1' } });
  if (!response.ok) throw new Failure(response.status, (await response.json().catch(() => ({}))).error || {});
  save(await response.blob(), (fileName(name) || s.id) + '.html');
}

// fileName is what of a name every system takes as one.
const fileName = (name) => name.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60);
