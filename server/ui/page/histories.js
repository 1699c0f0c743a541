// What agents have kept on the server's machine, and the import of it.

import { useState } from 'preact/hooks';
import { api, bytes, clean, Empty, Failure, full, html, Link, Problem, project, useLoad } from './base.js';

const names = { 'claude-code': 'Claude Code', codex: 'Codex', opencode: 'opencode' };

// steps reads an answer of lines, and calls a function with each.
async function steps(path, body, tell) {
  const response = await fetch('/ui' + path, { method: 'POST', headers: { 'X-Mneme-UI': '1', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!response.ok) throw new Failure(response.status, (await response.json().catch(() => ({}))).error || {});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let end = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) tell((end = JSON.parse(line)));
  }
  if (!end || !(end.error || end.found || end.imported)) throw new Failure(0, { message: 'The server was stopped. Import it again: what is imported stays, and is skipped.' });
  if (end.error) throw new Failure(200, { message: end.error });
}

// Histories offers what was found.
export function Histories({ who }) {
  const { data, error } = useLoad('/v1/histories');
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<section aria-busy="true"></section>`;
  if (!data.data.length) return html`<${Empty} title="Nothing to import"><p>Claude Code, Codex and opencode have kept nothing on this machine. <code>mneme import</code> takes more: conversations of ChatGPT, files elsewhere, and exports.</p><//>`;
  return html`<section class="histories">
    <h1>Import what agents have kept</h1>
    <p class="hint">Conversations on the server’s machine from before, for account <b>${who.account}</b>: to be read, searched and recalled. Nothing leaves the machine, credentials are masked, and what is there already is skipped.</p>
    ${data.data.map((kept) => html`<${History} ...${kept} key=${kept.client} />`)}
  </section>`;
}

function History({ client, files, bytes: size }) {
  const [state, set] = useState({}); // the last line of each kind
  const [busy, setBusy] = useState('');
  const [error, setError] = useState(null);
  const run = (dry) => async () => {
    setBusy(dry ? 'reading' : 'importing');
    setError(null);
    set((s) => (dry ? {} : { found: s.found }));
    try {
      await steps('/v1/histories', { client, dry_run: dry }, (step) => set((s) => ({ ...s, ...step })));
    } catch (failure) {
      setError(failure);
    }
    setBusy('');
  };
  const { found, imported } = state;
  const at = state.importing || state.reading;
  const sum = (name) => found.projects.reduce((n, p) => n + p[name], 0);
  const unknown = found ? Object.entries(found.unknown || {}) : [];
  return html`<section class="history" aria-labelledby=${'of-' + client}>
    <h2 id=${'of-' + client}>${names[client] || client} <small>${files} ${files === 1 ? 'file' : 'files'}, ${bytes(size)}</small></h2>
    ${!found && html`<button disabled=${busy} onClick=${run(true)}>See what is there</button>`}
    ${busy && html`<p role="status">${busy}… <progress max=${at ? at.of || 1 : 1} value=${at ? at.done : 0} aria-label=${busy}></progress></p>`}
    ${error && html`<p class="error" role="alert">${error.message}</p>`}
    ${found &&
    html`<div class="scroll" tabindex="0" role="region" aria-label=${'Projects of ' + (names[client] || client)}><table><thead><tr><th>project</th><th class="num">sessions</th><th class="num">exchanges</th><th>first</th><th>last</th></tr></thead>
      <tbody>${found.projects.map((p) => html`<tr><td title=${p.project || ''}>${clean(project(p.project)) || '–'}</td><td class="num">${p.sessions}</td><td class="num">${p.exchanges}</td><td title=${full(p.first)}>${p.first.slice(0, 10)}</td><td title=${full(p.last)}>${p.last.slice(0, 10)}</td></tr>`)}</tbody></table></div>
      ${(found.cut || []).concat(found.problems || []).map((p) => html`<p class="warn-box">Left out: ${clean(p)}</p>`)}
      ${unknown.length > 0 && html`<p class="hint">Left out, because it is not known: ${unknown.map(([name, n]) => clean(name) + ' (' + n + ')').join(', ')}</p>`}
      ${!imported && html`<button class="primary" disabled=${busy || !sum('exchanges')} onClick=${run(false)}>Import ${sum('exchanges')} ${sum('exchanges') === 1 ? 'exchange' : 'exchanges'}</button>`}`}
    ${imported &&
    html`<div class="note made" role="status"><p>Imported ${imported.exchanges} ${imported.exchanges === 1 ? 'exchange' : 'exchanges'} in ${imported.sessions} ${imported.sessions === 1 ? 'session' : 'sessions'}${imported.skipped ? '; ' + imported.skipped + ' were there already' : ''}${imported.passed ? '; ' + imported.passed + ' passed through the server and are on record as they were' : ''}. <${Link} to="/ui/">See them<//>.
      ${imported.erased_after ? html` Retention erases them after ${full(imported.erased_after)}.` : ''}</p></div>`}
  </section>`;
}
