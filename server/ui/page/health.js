import { useEffect, useState } from 'preact/hooks';
import { bytes, clean, count, full, html, Problem, useLoad } from './base.js';

const stages = { digest: 'turns', words: 'word index', vectors: 'vector index', sessions: 'sessions' };

// Health says how the server and the memory are.
export function Health() {
  const [tick, set] = useState(0);
  useEffect(() => {
    const often = setInterval(() => document.visibilityState === 'visible' && set((n) => n + 1), 5000);
    return () => clearInterval(often);
  }, []);
  const { data: h, error } = useLoad('/v1/health', tick);
  const { data: stats } = useLoad('/v1/memory/stats', Math.floor(tick / 6));
  if (error) return html`<${Problem} error=${error} />`;
  if (!h) return html`<section aria-busy="true"><h1>Health</h1></section>`;
  const index = stats && stats.index;
  const stored = stats ? [['blocks', stats.stored_blocks], ['answers', stats.stored_responses], ['records', stats.stored_records], ['sessions', stats.stored_sessions], ['turns', stats.stored_turns]] : [];
  return html`<section class="health">
    <div class="bar-top"><h1>Health <span class=${'state ' + (h.ready ? 'live' : 'lost')}>${h.ready ? 'ready' : h.draining ? 'draining' : 'not ready'}</span></h1></div>
    ${h.problem && html`<p class="banner" role="alert">${h.problem}</p>`}
    <dl class="facts">
      <div><dt>version</dt><dd>${h.version}</dd></div>
      <div><dt>open requests</dt><dd>${h.open}</dd></div>
      <div><dt>streams</dt><dd>${h.streams}</dd></div>
      <div><dt>capture</dt><dd>${h.capture ? 'on' : 'off'}</dd></div>
      <div><dt>model facts as of</dt><dd>${h.models_as_of}</dd></div>
      <div><dt>prices as of</dt><dd>${h.prices_as_of}</dd></div>
      ${index && html`<div><dt>index lag</dt><dd>${count(index.lag_seq || index.lag || 0)}</dd></div>`}
      ${stats && html`<div><dt>exchanges</dt><dd>${count(stats.exchanges)}</dd></div><div><dt>sessions</dt><dd>${count(stats.sessions)}</dd></div>`}
      ${stats && html`<div><dt>traffic</dt><dd>${bytes(stats.request_bytes + stats.response_bytes)}</dd></div><div><dt>stored</dt><dd>${bytes(stats.stored)}</dd></div>`}
    </dl>
    ${h.findings.length > 0 && html`<h2>Doctor</h2><div class="scroll" tabindex="0" role="region" aria-label="Findings"><table><tbody>${h.findings.map((f) => html`<tr><td class=${{ good: '', warning: 'warn', problem: 'bad' }[f.state]}>${f.state}</td><td>${f.check}</td><td>${clean(f.found)}${f.fix ? html`<br /><small>${clean(f.fix)}</small>` : ''}</td></tr>`)}</tbody></table></div>`}
    ${index && index.stages && html`<h2>Background stages</h2><div class="scroll" tabindex="0" role="region" aria-label="Stages"><table><thead><tr><th>stage</th><th class="num">lag</th><th class="num">not yet on disk</th><th class="num">done</th><th class="num">time each</th></tr></thead>
      <tbody>${index.stages.map((s) => html`<tr><td>${stages[s.stage] || s.stage}</td><td class="num">${count(s.lag)}</td><td class="num">${count(s.unconfirmed)}</td><td class="num">${count(s.done)}</td><td class="num">${s.done ? (s.busy_ms / s.done).toFixed(2) + ' ms' : '–'}</td></tr>`)}</tbody></table></div>
      <p class="hint">For all accounts, since the server started.</p>`}
    <h2>Providers</h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Providers"><table><thead><tr><th>provider</th><th>address</th><th>breaker</th><th class="num">keys ready</th></tr></thead>
      <tbody>${h.providers.map((p) => html`<tr><td>${p.name}${p.simulated ? html` <span class="tag">simulated</span>` : ''}</td><td><code>${p.base_url}</code></td><td class=${p.breaker === 'closed' ? '' : 'bad'}>${p.breaker === 'closed' ? (p.keys_ready ? 'ok' : 'no key') : p.breaker === 'open' ? 'open' : 'probing'}</td><td class="num">${p.keys_ready}</td></tr>`)}</tbody></table></div>
    ${stats && html`<h2>Storage</h2><div class="scroll" tabindex="0" role="region" aria-label="Storage"><table><tbody>${stored.map(([name, n]) => html`<tr><td>${name}</td><td class="num">${bytes(n)}</td></tr>`)}</tbody></table></div>`}
    ${stats && stats.as_of && html`<p class="hint">as of ${full(stats.as_of)}</p>`}
    <p class="hint"><code>mneme doctor</code> also checks the providers and says how to fix problems.</p>
  </section>`;
}
