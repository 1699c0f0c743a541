// The subagents of a session, and the calls that they worked for.

import { createContext } from 'preact';
import { useMemo } from 'preact/hooks';
import { clean, cost, html, Link, money, useLoad } from './base.js';

// Subagents has the session of each call that a subagent worked for, by the call's id.
export const Subagents = createContext(new Map());

// spent is what sessions cost, list prices included.
export const spent = (list) => list.reduce((sum, s) => sum + ((s.cost || {}).usd || 0) + ((s.cost || {}).notional_usd || 0), 0);

// useSubagents gives the sessions below one, the oldest first.
export function useSubagents(id, turns) {
  const { data } = useLoad('/v1/memory/sessions?order=asc&limit=100&include=beginning&parent=' + id, turns);
  return (data && data.data) || [];
}

// useCalled finds the call that each subagent worked for: its result names the subagent, or its prompt is what was asked of it.
export function useCalled(turns, subagents) {
  return useMemo(() => {
    const found = new Map();
    if (!subagents.length) return found;
    const left = new Set(subagents);
    const take = (call, fits) => {
      for (const s of found.has(call) ? [] : left) {
        if (!fits(s)) continue;
        found.set(call, s);
        left.delete(s);
        return;
      }
    };
    const parts = (list) => (list || []).flatMap((m) => m.parts);
    for (const { turn } of turns) for (const p of parts(turn && turn.messages)) if (p.kind === 'result' && p.call_id) take(p.call_id, (s) => s.agent && (p.text || '').includes(s.agent));
    for (const { turn } of turns) for (const p of parts(turn && turn.answer)) if (p.kind === 'call' && p.call_id) take(p.call_id, (s) => s.asked && (p.arguments || '').includes(JSON.stringify(s.asked.replace(/…$/, '')).slice(1, -1)));
    return found;
  }, [turns, subagents]);
}

const some = 4; // that are named at once

const named = (s) => clean(s.title || s.asked || s.agent || 'Untitled').replace(/^(.{40}\S*).+/s, '$1…').replace(/\.$/, '');

// Below names the subagents of a session.
export function Below({ of }) {
  if (!of.length) return null;
  return html`<p class="sub">${of.length === 1 ? 'a subagent' : of.length + ' subagents'}${spent(of) ? ', ' + money(spent(of)) + ' more' : ''}: ${of.slice(0, some).map((s, i) => html`${i ? ' · ' : ''}<${Link} to=${'/ui/sessions/' + s.id} title=${cost(s.cost)}>${named(s)}<//>`)}${of.length > some ? ' and ' + (of.length - some) + ' more' : ''}</p>`;
}
