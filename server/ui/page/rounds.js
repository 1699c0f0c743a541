// A round is a question, the steps that an agent takes, and the answer. Steps in between are folded.

import { between, html, lasted, money } from './base.js';

const few = 2; // steps that are not folded

// folded gives what is shown of a path: {step} or {fold}. Rounds in open, and that of the chosen turn, are unfolded.
export function folded(path, open, chosen) {
  const items = [];
  for (let from = 0; from < path.length; ) {
    let to = from + 1;
    while (to < path.length && !path[to].entry.opens && !path[to].ways.length) to++;
    const round = path.slice(from, to);
    const middle = round[0].entry.opens ? round.slice(1, -1) : [];
    if (middle.length <= few) {
      for (const step of round) items.push({ step });
    } else {
      const id = round[0].entry.exchange.id;
      const holds = middle.some((step) => step.entry.exchange.id === chosen);
      const unfolded = holds || open.has(id);
      items.push({ step: round[0] }, { fold: { id, round, steps: middle.length, unfolded } });
      if (unfolded) for (const step of middle) items.push({ step });
      items.push({ step: round[round.length - 1] });
    }
    from = to;
  }
  return items;
}

const file = (text) => {
  try {
    const a = JSON.parse(text);
    return a.file_path || a.path || a.filePath || a.notebook_path || '';
  } catch {
    return '';
  }
};

// sums says what a round took: steps, files, failures, cost and time.
function sums({ round, steps }) {
  const files = new Set();
  let failed = 0;
  let usd = 0;
  for (const { entry } of round) {
    const cost = entry.exchange.cost;
    if (cost) usd += cost.usd;
    const turn = entry.turn || {};
    for (const m of turn.messages || []) for (const p of m.parts) if (p.kind === 'result' && p.failed) failed++;
    for (const m of turn.answer || []) for (const p of m.parts) if (p.kind === 'call') files.add(file(p.arguments));
  }
  files.delete('');
  const [first, last] = [round[0].entry.exchange, round[round.length - 1].entry.exchange];
  const took = between(first.started, last.last_byte);
  return [steps + ' steps', files.size && files.size + (files.size === 1 ? ' file' : ' files'), failed && failed + ' failed', usd > 0 && money(usd), took > 0 && !first.imported && lasted(took)].filter(Boolean).join(' · ');
}

// Fold stands for the steps of a round.
export function Fold({ fold, toggle, small }) {
  return html`<button class=${'quiet round-fold' + (small ? ' small' : '')} aria-expanded=${fold.unfolded} onClick=${() => toggle(fold.id)}><span aria-hidden="true">${fold.unfolded ? '▾' : '▸'}</span> ${small ? fold.steps + ' steps' : sums(fold)}</button>`;
}

// question is the person's words with which a turn begins a round.
export function question(entry, woven) {
  if (!entry.opens || !entry.turn) return '';
  const texts = (entry.turn.messages || []).filter((m) => m.role === 'user').flatMap((m) => m.parts.filter((p) => p.kind === 'text' && p.text && !woven.test(p.text)).map((p) => p.text.trim()));
  return (texts.pop() || '').slice(0, 160);
}
