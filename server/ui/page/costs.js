// What tokens were for, and what each cause cost.

import { clean, count, html, money, percent, useLoad } from './base.js';

export const partNames = { tools: 'tool definitions', system: 'system', user: 'user', assistant: 'assistant', results: 'tool results', woven: 'put in by the client', calls: 'tool calls', media: 'pictures, files', reasoning: 'reasoning', developer: 'system', answer: 'answer', answer_calls: 'answer: tool calls', answer_reasoning: 'answer: reasoning', other: 'other' };

const mostNamed = 8;

// Causes shows the costs of a session or an exchange by part, and the definitions that were never called.
export function Causes({ of, title }) {
  const { data: c } = useLoad('/v1/memory/costs?by=part&limit=100&' + of);
  if (!c || !c.data.length || !c.total.usd) return null;
  const unused = c.tools.filter((t) => !t.called);
  const sum = (list, what) => list.reduce((all, t) => all + t[what], 0);
  const share = c.total.input ? sum(unused, 'input') / c.total.input : 0;
  return html`<section class="causes"><h2>${title} <small>${money(c.total.usd)}${c.has_more ? ' in the newest ' + c.exchanges + ' requests' : ''}</small></h2>
    <table class="parts"><tbody>${c.data.map((l) => html`<tr><td>${partNames[l.part] || clean(l.part)}</td><td class="num">${count(l.input + l.output)}</td><td class="num">${money(l.usd)}</td><td class="num">${percent(l.usd / c.total.usd)}</td></tr>`)}</tbody></table>
    ${share >= 0.01 && html`<p class="hint">${percent(share)} of ${of.startsWith('exchange') ? 'this request' : 'the prompts'} (${money(sum(unused, 'usd'))}) are definitions of tools that were never called: ${unused.slice(0, mostNamed).map((t, i) => html`${i ? ', ' : ''}<code>${clean(t.name)}</code>`)}${unused.length > mostNamed ? ' and ' + (unused.length - mostNamed) + ' more' : ''}.</p>`}
  </section>`;
}
