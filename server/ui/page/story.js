// What happened in a session, in its own words.

import { clean, html, plain } from './base.js';

const some = 6; // of a list

// within is a path as it stands in a project.
const within = (file, directory) => (directory && file.startsWith(directory + '/') ? file.slice(directory.length + 1) : file);

// Story shows goal, outcome, what is left, files and failures. A goal that the heading says is left out.
export function Story({ of: s, heading, directory }) {
  if (!s) return null;
  const list = (items) => html`${items.slice(0, some).map((t, i) => html`${i ? ', ' : ''}<code>${clean(within(t, directory))}</code>`)}${items.length > some ? ' and ' + (items.length - some) + ' more' : ''}`;
  const rows = [
    s.goal && s.goal !== heading && ['Goal', plain(s.goal)],
    s.done && ['Done', plain(s.done)],
    s.left && ['Left', html`${s.left.slice(0, some).map((t, i) => html`${i ? '; ' : ''}${plain(t)}`)}`],
    s.files && ['Files', list(s.files)],
    s.errors && ['Failed', html`<span class="bad">${[...new Set(s.errors)].slice(0, 2).map((t, i) => html`${i ? '; ' : ''}${clean(t)}`)}</span>`],
  ].filter(Boolean);
  return rows.length > 0 && html`<dl class="story">${rows.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>`;
}

// clients are names of programs as people write them.
export const clients = { 'claude-code': 'Claude Code', 'claude-cli': 'Claude Code', codex: 'Codex', opencode: 'opencode', chatgpt: 'ChatGPT' };

// Imported marks what did not pass here.
export function Imported({ client, time }) {
  return html`<span class="tag" title=${time ? 'imported ' + time : ''}>imported${clients[client] ? ' from ' + clients[client] : ''}</span>`;
}

// Unrecorded stands for what is not known of an imported exchange.
export function Unrecorded({ what }) {
  return html`<div class="note"><h2>Not recorded: imported</h2><p>${what} did not pass here. It was read from the history that its client kept, which holds the words and the calls, and not the requests.</p></div>`;
}

