import { useEffect, useRef, useState } from 'preact/hooks';
import { ago, api, clean, Empty, full, go, html, Link, Model, Problem, project, setQuery, useAddress, useKeys } from './base.js';

const facetNames = ['project', 'client', 'model', 'tool', 'outcome', 'tag'];

// Search finds turns. Hits open at their turn.
export function Search() {
  const { query } = useAddress();
  const q = query.get('q') || '';
  const explain = query.get('explain') === '1';
  const [state, set] = useState({ answer: null, error: null, took: 0, q: null });
  const [limit, setLimit] = useState(20);
  const at = useRef(-1);
  useEffect(() => setLimit(20), [q]);
  useEffect(() => {
    const control = new AbortController();
    const began = performance.now();
    at.current = -1;
    api('/v1/memory/search', { method: 'POST', signal: control.signal, body: { query: q, newest: q === '' ? true : undefined, limit, facets: true, explain: explain || undefined } }).then(
      (answer) => set({ answer, error: null, took: performance.now() - began, q }),
      (error) => error.name !== 'AbortError' && set((s) => ({ ...s, error, q })),
    );
    return () => control.abort();
  }, [q, explain, limit]);
  const hits = (state.answer && state.answer.data) || [];
  const within = new Set(hits.map((h) => h.session_id)).size;
  const names = useNames(hits);
  const move = (step) => {
    const rows = document.querySelectorAll('.search .row');
    at.current = Math.min(Math.max(at.current + step, 0), rows.length - 1);
    if (rows[at.current]) rows[at.current].focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1), e: () => setQuery({ explain: explain ? '' : '1' }) });
  const narrow = (name, value) => {
    const term = name + ':' + (/\s/.test(value) ? '"' + value + '"' : value);
    go('/ui/search?q=' + encodeURIComponent((q + ' ' + term).trim()));
  };
  const facets = (hits.length && state.answer.facets) || {}; // of all that is found
  return html`<section class="search">
    <div class="bar-top"><h1>${q ? html`Search <small>${clean(q)}</small>` : 'Newest turns'}</h1>
      <div class="filters"><button aria-pressed=${explain} onClick=${() => setQuery({ explain: explain ? '' : '1' })}>Scores</button></div></div>
    ${state.error && html`<${Problem} error=${state.error} />`}
    <div class="split">
      <aside class="facets" aria-label="Narrow down">${facetNames.filter((n) => (facets[n] || []).length).map((name) => html`<div><h2>${name}</h2><ul>${facets[name].slice(0, 8).map((v) => html`<li><button class="quiet" onClick=${() => narrow(name, v.value)}><span>${clean(v.value)}</span><small>${v.count}</small></button></li>`)}</ul></div>`)}</aside>
      <div>
        ${state.answer && html`<p class="hint" role="status">${hits.length}${state.answer.has_more ? '+' : ''} ${hits.length === 1 ? 'hit' : 'hits'} in ${within === 1 ? 'one session' : within + ' sessions'} · ${state.answer.mode_used} · ${Math.round(state.took)} ms${(state.answer.degraded || []).map((d) => html` · <span class="warn">${d}</span>`)}</p>`}
        ${state.answer && !hits.length && html`<${Empty} title="Nothing found"><p>Fewer words find more. Words in quotes have to stand together; <code>project:</code>, <code>tool:</code>, <code>model:</code> and <code>client:</code> narrow down.</p><//>`}
        <ol class="list hits">${hits.map((h) => html`<${Hit} hit=${h} name=${names[h.session_id]} key=${h.exchange_id} />`)}</ol>
        ${state.answer && state.answer.has_more && limit < 100 && html`<button class="more" onClick=${() => setLimit(Math.min(limit + 40, 100))}>Show more</button>`}
      </div>
    </div>
  </section>`;
}

// useNames gives the first questions of sessions that have no title.
function useNames(hits) {
  const [names, set] = useState({});
  const wanted = [...new Set(hits.filter((h) => !h.title).map((h) => h.session_id))].filter((id) => !(id in names)).slice(0, 20);
  useEffect(() => {
    for (const id of wanted) api('/v1/memory/sessions/' + id).then((s) => set((all) => ({ ...all, [id]: s.title || s.asked || '' })), () => set((all) => ({ ...all, [id]: '' })));
  }, [wanted.join()]);
  return names;
}

function Hit({ hit, name }) {
  return html`<li><${Link} class="row" to=${'/ui/sessions/' + hit.session_id + '?turn=' + hit.exchange_id}>
    <span class="name"><b>${clean(hit.title || name) || 'Untitled'}</b> <small>${[hit.project && project(hit.project), hit.client, hit.role].filter(Boolean).map((t) => clean(t) + ' · ')}<${Model} name=${hit.model} /> · <time title=${full(hit.time)}>${ago(hit.time)}</time>${hit.match ? ' · by ' + hit.match : ''}${(hit.duplicates || []).length ? ' · ' + hit.duplicates.length + ' more say the same' : ''}</small></span>
    <span class="snippet">${highlighted(hit.snippet, hit.highlights)}</span>
    ${hit.scores && html`<span class="scores"><small>score ${hit.score.toFixed(2)} · words ${hit.scores.lexical.toFixed(2)} · BM25 ${hit.scores.bm25.toFixed(2)}${hit.scores.context ? ' · context ' + hit.scores.context.toFixed(2) : ''}${hit.scores.cosine !== undefined ? ' · cosine ' + hit.scores.cosine.toFixed(2) : ''} · coverage ${hit.coverage.toFixed(2)}</small></span>`}
  <//></li>`;
}

// highlighted marks what was found; offsets count characters, not units of JavaScript's strings.
function highlighted(text, marks) {
  const chars = Array.from(text || '');
  const out = [];
  let at = 0;
  for (const [from, to] of marks || []) {
    if (from > at) out.push(clean(chars.slice(at, from).join('')));
    out.push(html`<mark>${clean(chars.slice(from, to).join(''))}</mark>`);
    at = to;
  }
  out.push(clean(chars.slice(at).join('')));
  return out;
}
